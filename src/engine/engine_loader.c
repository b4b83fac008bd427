/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, opening and checking an engine module. Nothing of a module is used before its version and its interface are
 * known to be this library's: both are built from one tree, so only equal ones fit. */
#include "engine_loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nearfield/version.h"

#ifndef NEARFIELD_MODULE_PATH
#error "NEARFIELD_MODULE_PATH must be the folder that modules are installed into"
#endif

#define FOLDER_VARIABLE "NEARFIELD_MODULE_DIR"
#define MOST_FOLDERS 2

typedef struct module_folders {
    char     path[MOST_FOLDERS][PATH_MAX];
    uint32_t count;
} module_folders;

/* A reason; cut where it is longer than the record. */
__attribute__((format(printf, 2, 3))) static void say(nf_loaded_module *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out->reason, sizeof out->reason, format, arguments);
    va_end(arguments);
}

/* ---- where to look ---- */

static void add_folder(module_folders *folders, const char *path, size_t length)
{
    char *to = folders->path[folders->count];
    if (length == 0 || length >= PATH_MAX) return;
    memcpy(to, path, length);
    to[length] = '\0';
    if (folders->count == 0 || strcmp(to, folders->path[0]) != 0) folders->count++;
}

/* The file of the object that holds this code. The dynamic linker knows the main program by an empty name (and by argv[0],
 * which anyone may set: not used), and an object that was opened by a relative path by that path, which would mean
 * something else after a change of the directory: it has no folder then. */
static bool own_file(char file[PATH_MAX])
{
    static const char here = 0;
    struct link_map  *map = NULL;
    Dl_info           about;
    if (dladdr1(&here, &about, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) return false;
    const char *name = map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe";
    return name[0] == '/' && realpath(name, file) != NULL;
}

/* Fills folders. False, with the reason, when the user's folder cannot be meant. */
static bool find_folders(module_folders *folders, nf_loaded_module *out)
{
    char        file[PATH_MAX];
    const char *asked = secure_getenv(FOLDER_VARIABLE);
    folders->count = 0;
    if (asked != NULL && asked[0] != '\0') {
        if (asked[0] != '/') {
            say(out, FOLDER_VARIABLE " is '%s', an absolute path is needed", asked);
            return false;
        }
        add_folder(folders, asked, strlen(asked));
        return true;
    }
    if (own_file(file)) add_folder(folders, file, (size_t)(strrchr(file, '/') - file));
    add_folder(folders, NEARFIELD_MODULE_PATH, strlen(NEARFIELD_MODULE_PATH));
    return true;
}

static void say_not_found(const char *name, const module_folders *folders, nf_loaded_module *out)
{
    const char *second = folders->count > 1 ? folders->path[1] : "";
    if (folders->count == 0) say(out, "the %s module has no folder to be in", name);
    else say(out, "the %s module is not there: no libnearfield-%s.so in %s%s%s", name, name, folders->path[0],
             second[0] != '\0' ? " or in " : "", second);
}

/* ---- what was found ---- */

static void check_module(const char *name, const char *file, const nf_engine_module *module, nf_loaded_module *out)
{
    if (module == NULL) {
        say(out, "the %s module does not work with this library, version %s: %s", name, NF_VERSION, file);
    } else if (strcmp(module->version, NF_VERSION) != 0) {
        say(out, "the %s module is version %s, this library %s: %s", name, module->version, NF_VERSION, file);
    } else if (module->abi != NF_MODULE_ABI || module->struct_size != sizeof *module) {
        say(out, "the %s module has interface %u.%zu, this library %u.%zu: %s", name, module->abi, module->struct_size,
            NF_MODULE_ABI, sizeof *module, file);
    } else if (strcmp(module->name, name) != 0) {
        say(out, "the %s module calls itself %s: %s", name, module->name, file);
    } else {
        out->module = module;
    }
}

static void open_file(const char *name, const char *file, nf_loaded_module *out)
{
    nf_module_entry_fn entry = NULL;
    void              *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        say(out, "the %s module cannot be loaded: %s", name, why != NULL ? why : file);
        return;
    }
    void *symbol = dlsym(handle, NF_MODULE_ENTRY);
    if (symbol == NULL) {
        say(out, "the %s module has no entry point " NF_MODULE_ENTRY ": %s", name, file);
        return;
    }
    /* ISO C converts no object pointer into a function's; POSIX says that they look the same. */
    memcpy(&entry, &symbol, sizeof entry);
    check_module(name, file, entry(nf_engine_services()), out);
}

void nf_engine_load_module(const char *name, nf_loaded_module *out)
{
    module_folders folders;
    char           file[PATH_MAX];

    memset(out, 0, sizeof *out);
    if (!find_folders(&folders, out)) return;
    for (uint32_t i = 0; i < folders.count; i++) {
        const int length = snprintf(file, sizeof file, "%s/libnearfield-%s.so", folders.path[i], name);
        if (length < 0 || (size_t)length >= sizeof file || access(file, F_OK) != 0) continue;
        open_file(name, file, out);
        return;
    }
    say_not_found(name, &folders, out);
}
