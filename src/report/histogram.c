/* See histogram.h. Two passes: the range, then the counts. */
#include "report/histogram.h"

#include <math.h>
#include <stdbool.h>

#include "tensor/element.h"

static void measure_range(yki_histogram *h, const yk_tensor *tensor, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double value = yki_element_get(tensor->dtype, tensor->data, i);
        if (!isfinite(value))
            continue;
        h->minimum = h->count == 0 || value < h->minimum ? value : h->minimum;
        h->maximum = h->count == 0 || value > h->maximum ? value : h->maximum;
        h->sum += value;
        h->sum_of_squares += value * value;
        h->count++;
    }
}

static void count_elements(yki_histogram *h, const yk_tensor *tensor, int64_t count)
{
    double per_width = h->bins / (h->maximum - h->minimum);
    for (int64_t i = 0; i < count; i++) {
        double value = yki_element_get(tensor->dtype, tensor->data, i);
        if (!isfinite(value))
            continue;
        int bin = h->bins > 1 ? (int)((value - h->minimum) * per_width) : 0;
        h->in_bin[bin < h->bins ? bin : h->bins - 1]++;
    }
}

yk_status yki_histogram_measure(yki_histogram *histogram, const yk_tensor *tensor)
{
    yki_histogram *h = histogram;
    *h = (yki_histogram){.bins = 0};
    if (tensor->dtype != YK_F32 && tensor->dtype != YK_F64)
        return yki_error(YK_ERROR_UNSUPPORTED, "a histogram of %s: expected float32 or float64",
                         yk_dtype_name(tensor->dtype));
    int64_t count = yk_tensor_count(tensor);
    measure_range(h, tensor, count);
    if (h->count == 0)
        return YK_OK;
    double width = (h->maximum - h->minimum) / YKI_HISTOGRAM_BINS;
    bool spread = width > 0 && isfinite(width) && isfinite(1 / width);
    h->bins = spread ? YKI_HISTOGRAM_BINS : 1;
    for (int i = 0; i < h->bins; i++)
        h->limit[i] = i < h->bins - 1 ? h->minimum + (i + 1) * width : h->maximum;
    count_elements(h, tensor, count);
    return YK_OK;
}
