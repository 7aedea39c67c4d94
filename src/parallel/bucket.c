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

/* There is room for one more bucket only if something is moved. */
static size_t split_last(yki_bucket *buckets, size_t count, const size_t *order,
                         const size_t *bytes, size_t cap)
{
    if (count == 0 || buckets[count - 1].bytes <= cap)
        return count;
    yki_bucket *whole = &buckets[count - 1];
    yki_bucket last = {.first = whole->first + whole->count, .dtype = whole->dtype};
    while (last.bytes + bytes[order[last.first - 1]] <= cap) {
        last.first--;
        last.count++;
        last.bytes += bytes[order[last.first]];
    }
    if (last.count == 0)
        return count;
    whole->count -= last.count;
    whole->bytes -= last.bytes;
    buckets[count] = last;
    return count + 1;
}

size_t yki_bucket_split_last(yki_bucket *buckets, size_t count, const size_t *order,
                             const size_t *bytes, size_t cap)
{
    enum { PART = 4 };
    size_t made = split_last(buckets, count, order, bytes, cap);
    return made == count ? made : split_last(buckets, made, order, bytes, cap / PART);
}
