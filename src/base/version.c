/* Which yoke this is. The build writes base/source_hash.h. */
#include <yoke/status.h>

#include "base/source_hash.h"

const char *yk_version(void)
{
    return YOKE_VERSION;
}

const char *yk_build(void)
{
    return YOKE_VERSION "-" YOKE_SOURCES;
}
