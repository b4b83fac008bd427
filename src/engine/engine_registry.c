/* SPDX-License-Identifier: Apache-2.0 */
/* The list of engines, and choosing one. This is the only file that names them. */
#include "engine.h"

extern const nf_engine_ops nf_cpu_engine;

nf_status nf_engine_for(nf_context *ctx, const nf_engine_ops **out)
{
    if (nf_context_settings(ctx)->engine == NF_ENGINE_CUDA) {
        return nf_fail(ctx, NF_ERR_ENGINE, "the cuda engine is not part of this build");
    }
    *out = &nf_cpu_engine;
    return NF_OK;
}
