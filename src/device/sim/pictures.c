/* The simulated device's batches of pictures: ref's, with every address looked up when they run. */
#include "device/ref/ref.h"
#include "device/sim/sim.h"

static size_t output_bytes(const yki_pictures_args *args)
{
    int64_t count = args->batch * args->channels * args->out_height * args->out_width;
    return (size_t)count * yk_dtype_size(args->dtype);
}

/* Samples that are read. */
static int64_t samples_of(const yki_pictures_args *args)
{
    return args->batch + (args->mix != NULL);
}

static yk_status check_sources(const yki_pictures_args *host)
{
    for (int64_t n = 0; n < samples_of(host); n++)
        if (host->draws[n].source < 0 || host->draws[n].source >= host->count)
            return yki_error(YK_ERROR_INTERNAL, "device sim: sample %lld is picture %lld of %lld",
                             (long long)n, (long long)host->draws[n].source,
                             (long long)host->count);
    return YK_OK;
}

static yk_status find_erasings(yki_sim *sim, const yki_pictures_args *args, yki_pictures_args *host)
{
    void *found;
    size_t count = (size_t)args->erasing_count, boxes = (size_t)samples_of(args) * count;
    if (count == 0)
        return YK_OK;
    YK_TRY(yki_sim_find(sim, args->erasings, count * sizeof *args->erasings, &found));
    host->erasings = found;
    YK_TRY(yki_sim_find(sim, args->boxes, boxes * sizeof *args->boxes, &found));
    host->boxes = found;
    return YK_OK;
}

/* The arguments as the host sees them. */
static yk_status find_all(yki_sim *sim, const yki_pictures_args *args, yki_pictures_args *host)
{
    void *found;
    size_t picture = (size_t)args->channels * (size_t)args->height * (size_t)args->width;
    *host = *args;
    YK_TRY(yki_sim_find(sim, args->pictures, (size_t)args->count * picture, &found));
    host->pictures = found;
    YK_TRY(yki_sim_find(sim, args->draws, (size_t)samples_of(args) * sizeof *args->draws, &found));
    host->draws = found;
    if (args->mix) {
        YK_TRY(yki_sim_find(sim, args->mix, sizeof *args->mix, &found));
        host->mix = found;
    }
    size_t numbers = YKI_PICTURE_CHANNELS * YKI_PICTURE_NUMBERS * yk_dtype_size(args->dtype);
    YK_TRY(yki_sim_find(sim, args->numbers, numbers, &found));
    host->numbers = found;
    YK_TRY(find_erasings(sim, args, host));
    return yki_sim_find(sim, args->out, output_bytes(args), &host->out);
}

static yk_status run_pictures(yki_sim *sim, void *work)
{
    yki_pictures_args host;
    YK_TRY(find_all(sim, work, &host));
    YK_TRY(check_sources(&host));
    return yki_ref_pictures(&sim->base, &host);
}

yk_status yki_sim_pictures(yki_device *device, const yki_pictures_args *args)
{
    static const yki_sim_work kind = {.run = run_pictures, .bytes = sizeof *args};
    yki_sim *sim = (yki_sim *)device;
    yki_pictures_args host;
    YK_TRY(find_all(sim, args, &host));
    return yki_sim_enter(sim, args->stream, &kind, args);
}
