/* See training_state.h. One table of the struct's counters serves writing and reading. */
#include "io/training_state.h"

#include <math.h>
#include <string.h>

typedef struct counter {
    const char *name;
    size_t offset; /* of an int64_t in yk_training_state */
} counter;

static const counter counters[] = {
    {"epoch", offsetof(yk_training_state, epoch)},
    {"step", offsetof(yk_training_state, step)},
    {"epoch_batch", offsetof(yk_training_state, epoch_batch)},
    {"batch_size", offsetof(yk_training_state, batch_size)},
    {"world_size", offsetof(yk_training_state, world_size)},
};

enum { COUNTERS = sizeof counters / sizeof *counters, FORMAT_VERSION = 1 };

void yki_training_state_write(yki_pickle_writer *pickle, const yk_training_state *state,
                              const yk_optimizer *optimizer)
{
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "version");
    yki_pickle_int(pickle, FORMAT_VERSION);
    yki_pickle_text(pickle, "arch");
    yki_pickle_text(pickle, state->arch);
    for (int i = 0; i < COUNTERS; i++) {
        int64_t value;
        memcpy(&value, (const char *)state + counters[i].offset, sizeof value);
        yki_pickle_text(pickle, counters[i].name);
        yki_pickle_int(pickle, value);
    }
    yki_pickle_text(pickle, "seed");
    yki_pickle_int(pickle, (int64_t)state->seed); /* 64 bits: the upper half is negative there */
    yki_pickle_text(pickle, "lr");
    yki_pickle_float(pickle, state->lr);
    yki_pickle_text(pickle, "val_accuracy");
    yki_pickle_float(pickle, state->val_accuracy);
    if (optimizer) {
        yki_pickle_text(pickle, "optimizer");
        yki_pickle_text(pickle, yk_optimizer_name(optimizer));
        yki_pickle_text(pickle, "optimizer_steps");
        yki_pickle_int(pickle, yk_optimizer_steps(optimizer));
    }
    yki_pickle_setitems(pickle);
}

static yk_status read_count(const yki_pth *pth, const yki_pickle_value *dict, const char *name,
                            int64_t *count)
{
    const yki_pickle_value *value = yki_pickle_get(dict, name);
    if (!yki_pickle_is(value, YKI_PICKLE_INT) || value->integer < 0)
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                     "the count \"%s\" in \"yoke\"", name);
    *count = value->integer;
    return YK_OK;
}

static yk_status read_real(const yki_pth *pth, const yki_pickle_value *dict, const char *name,
                           double *real)
{
    const yki_pickle_value *value = yki_pickle_get(dict, name);
    if (!yki_pickle_is(value, YKI_PICKLE_FLOAT))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                     "the number \"%s\" in \"yoke\"", name);
    *real = value->real;
    return YK_OK;
}

static yk_status read_arch(const yki_pth *pth, const yki_pickle_value *dict,
                           yk_training_state *state)
{
    const yki_pickle_value *value = yki_pickle_get(dict, "arch");
    if (!yki_pickle_is(value, YKI_PICKLE_STRING) || value->count >= sizeof state->arch ||
        memchr(value->text, 0, value->count))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value,
                                     "the name \"arch\" in \"yoke\", shorter than %zu bytes",
                                     sizeof state->arch);
    memcpy(state->arch, value->text, value->count);
    return YK_OK;
}

yk_status yki_training_state_read(const yki_pth *pth, const yki_pickle_value *value,
                                  yk_training_state *state)
{
    yk_training_state new = {0};
    int64_t version = 0, number;
    YK_TRY(read_count(pth, value, "version", &version));
    if (version != FORMAT_VERSION)
        return yki_error(YK_UNSUPPORTED, "%s: training state of version %lld; this yoke reads %d",
                         yki_pth_path(pth), (long long)version, FORMAT_VERSION);
    YK_TRY(read_arch(pth, value, &new));
    for (int i = 0; i < COUNTERS; i++) {
        YK_TRY(read_count(pth, value, counters[i].name, &number));
        memcpy((char *)&new + counters[i].offset, &number, sizeof number);
    }
    const yki_pickle_value *seed = yki_pickle_get(value, "seed");
    if (!yki_pickle_is(seed, YKI_PICKLE_INT))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), seed, "\"seed\" in \"yoke\"");
    new.seed = (uint64_t)seed->integer;
    YK_TRY(read_real(pth, value, "lr", &new.lr));
    YK_TRY(read_real(pth, value, "val_accuracy", &new.val_accuracy));
    *state = new;
    return YK_OK;
}

yk_status yki_training_state_steps(const yki_pth *pth, const yki_pickle_value *value,
                                   const yk_optimizer *optimizer, int64_t *steps)
{
    *steps = -1;
    const yki_pickle_value *name = yki_pickle_get(value, "optimizer");
    if (!name)
        return YK_OK;
    if (!yki_pickle_is_text(name, yk_optimizer_name(optimizer)))
        return yki_error(YK_MISMATCH, "%s: was trained with %.*s, not with %s", yki_pth_path(pth),
                         yki_pickle_is(name, YKI_PICKLE_STRING) ? (int)name->count : 1,
                         yki_pickle_is(name, YKI_PICKLE_STRING) ? name->text : "?",
                         yk_optimizer_name(optimizer));
    return read_count(pth, value, "optimizer_steps", steps);
}
