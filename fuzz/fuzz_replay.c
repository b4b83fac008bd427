/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the files of folders, or single files, through a fuzz target: a test for any compiler. Each input lies at the end
 * of its memory, so that a sanitizer sees what is read behind it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    struct stat status;
    FILE       *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &status) != 0) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        if (file != NULL) fclose(file);
        return 0;
    }
    const size_t bytes = (size_t)status.st_size;
    uint8_t     *data = malloc(bytes > 0 ? bytes : 1);
    const int    read = data != NULL && fread(data, 1, bytes, file) == bytes;
    fclose(file);
    if (read) {
        printf("%s\n", path);
        fflush(stdout); /* the last line names the file that ends the process */
        LLVMFuzzerTestOneInput(data, bytes);
    }
    free(data);
    return read;
}

/* Runs the files of a folder, in the order of their names; returns how many, -1 on failure. */
static int run_folder(const char *folder)
{
    struct dirent **entries = NULL;
    const int       found = scandir(folder, &entries, NULL, alphasort);
    int             count = 0;
    for (int i = 0; i < found; i++) {
        const size_t room = strlen(folder) + strlen(entries[i]->d_name) + 2;
        char        *path = malloc(room);
        if (path != NULL && entries[i]->d_name[0] != '.') {
            snprintf(path, room, "%s/%s", folder, entries[i]->d_name);
            count = run_file(path) && count >= 0 ? count + 1 : -1;
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return found < 0 ? -1 : count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat status;
        const int   folder = stat(argv[i], &status) == 0 && S_ISDIR(status.st_mode);
        const int   ran = folder ? run_folder(argv[i]) : run_file(argv[i]);
        if (ran <= 0) {
            fprintf(stderr, "%s: nothing could be run\n", argv[i]);
            return 1;
        }
        count += ran;
    }
    printf("%d inputs\n", count);
    return count > 0 ? 0 : 1;
}
