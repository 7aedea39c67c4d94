/* metrics.jsonl, which a resumed run cuts back to its checkpoint. */
#include "fuzz.h"

#include <yoke/report.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yk_metrics *metrics;
    const char *path = fuzz_file(data, size);
    fuzz_begin(size);
    yk_status status = yk_metrics_open(&metrics, path);
    fuzz_check(status);
    if (status == YK_OK) {
        fuzz_check(yk_metrics_rewind(metrics, 3, size % 2));
        fuzz_check(yk_metrics_step(metrics, &(yk_step_record){.epoch = 1, .step = 4}));
        yk_metrics_close(metrics);
    }
    fuzz_end();
    return 0;
}
