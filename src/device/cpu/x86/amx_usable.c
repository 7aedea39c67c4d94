/* See amx.h. */
#include "device/cpu/x86/amx.h"

#include <oneapi/dnnl/dnnl.h>

#include "base/cpu_features.h"

bool yki_amx_is_usable(void)
{
    return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core_amx && yki_cpu_use_amx();
}
