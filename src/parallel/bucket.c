/* See bucket.h. */
#include "parallel/bucket.h"

size_t yki_bucket_plan(yki_bucket *buckets, const size_t *order, const size_t *bytes,
                       const yk_dtype *dtypes, size_t count, size_t first_cap, size_t cap)
{
    size_t made = 0;
    bool open = false;
    for (size_t i = 0; i < count; i++) {
        size_t parameter = order[i];
        if (open && buckets[made - 1].dtype != dtypes[parameter])
            open = false;
        if (!open) {
            buckets[made++] = (yki_bucket){.first = i, .dtype = dtypes[parameter]};
            open = true;
        }
        yki_bucket *bucket = &buckets[made - 1];
        bucket->count++;
        bucket->bytes += bytes[parameter];
        if (bucket->bytes >= (made == 1 ? first_cap : cap))
            open = false;
    }
    return made;
}
