/*
 * Local SGD. What ranks average lies in one block that they exchange: copies of the trained
 * parameters, of buffers and of the optimizer's state, those of one dtype side by side, so that
 * there is one all-reduce for each dtype. The block is filled, summed and scaled, and then swapped
 * with what it was copied from.
 *
 * The outer optimizer is a sweep of SGD over the weights at the last average ("anchor"), with
 * anchor - mean for a gradient. Its result takes the place of the mean before the swap.
 *
 * All of it is entered in the device's stream. The ranks' sums have the same bits (yk_all_reduce),
 * and so has what is computed from them.
 */
#include <yoke/local_sgd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/reference.h"
#include "base/trace.h"
#include "comm/group_internal.h"
#include "device/block.h"
#include "device/sweep.h"
#include "model/model_hooks.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "parallel/references.h"
#include "parallel/same_text.h"
#include "parallel/staging.h"
#include "parallel/verify_model.h"
#include "tensor/tensor.h"

enum { DTYPES = 2 };

static const yk_dtype dtypes[DTYPES] = {YK_F32, YK_F64};

/* Places in the spans of sweeps: of the sweep between the block and what is averaged ... */
enum { AT_BLOCK, AT_LIVE };
/* ... between the block and the anchor, and of the outer SGD. */
enum { AT_GRADIENT, AT_START };
enum { AT_ANCHOR, AT_CHANGE, AT_MOMENTUM };

/* Coefficients of what is swept, one set for each. */
enum { MEAN, CHANGE, OUTER, COEFFICIENT_SETS };

typedef enum item_kind { PARAMETER, BUFFER, STATE } item_kind;

/* A tensor that is averaged. */
typedef struct item {
    item_kind kind;
    size_t index;  /* of the parameter or buffer */
    int slot;      /* of its state */
    size_t offset; /* of its place in the block */
    size_t start;  /* of a parameter's place in the anchor */
} item;

struct yk_local_sgd {
    yki_reference reference;
    yk_optimizer *optimizer;
    yk_model *model; /* the optimizer's, which it keeps alive */
    yki_device *device;
    yk_group *group;
    yk_local_sgd_options options;
    int64_t steps; /* since the last average */
    item *items;   /* (count), those of a dtype side by side */
    size_t count;
    yki_staging block;
    yki_staged_part parts[DTYPES]; /* of the block; unused without items of the dtype */
    yki_sweep *between;            /* all items, in the block and live */
    yki_block coefficients;        /* (COEFFICIENT_SETS, YKI_SWEEP_COEFFICIENTS) */
    int64_t *ranks_steps;          /* (ranks) of their optimizers, when they average */
    yk_local_sgd_stats stats;      /* of the last average */
    size_t anchor_bytes;           /* of all parameters */
    /* Of the outer optimizer; NULL where the mean is what weights become. */
    char *anchor;
    bool is_anchored; /* the anchor is what the weights were at the last average */
    yk_ema *momentum; /* NULL without outer_momentum */
    yki_sweep *changes, *outer;
};

static bool has_outer(const yk_local_sgd *l)
{
    return l->options.outer_lr != 1 || l->options.outer_momentum > 0;
}

/* ---- what is averaged ------------------------------------------------------------------------ */

static yk_tensor find_tensor(const yk_local_sgd *l, const item *of)
{
    if (of->kind == PARAMETER)
        return yk_model_parameter(l->model, of->index).value;
    if (of->kind == BUFFER)
        return yk_model_buffer(l->model, of->index).value;
    return yki_optimizer_slot(l->optimizer, of->index, of->slot);
}

/* Adds the item, behind the others in the block, if it has the dtype. */
static void add_item(yk_local_sgd *l, yk_dtype dtype, item new)
{
    yk_tensor tensor = find_tensor(l, &new);
    if (tensor.dtype != dtype)
        return;
    new.offset = l->block.bytes;
    l->block.bytes += yki_tensor_padded_bytes(&tensor);
    if (new.kind == PARAMETER) {
        new.start = l->anchor_bytes;
        l->anchor_bytes += yki_tensor_padded_bytes(&tensor);
    }
    l->items[l->count++] = new;
}

/* Collective: which parameters the loss of any rank depends on. Those that it does not depend on
 * here are averaged as they are. */
static yk_status find_used(const yk_local_sgd *l, int32_t *used)
{
    const bool *here = yki_model_used(l->model);
    size_t parameters = yk_model_parameter_count(l->model);
    for (size_t i = 0; i < parameters; i++)
        used[i] = here[i];
    return yk_all_reduce(l->group, used, parameters, YK_I32, YK_REDUCE_MAX, NULL);
}

static void add_items(yk_local_sgd *l, yk_dtype dtype, const int32_t *used)
{
    int slots = l->options.average_state ? yki_optimizer_slot_count(l->optimizer) : 0;
    for (size_t i = 0; i < yk_model_parameter_count(l->model); i++) {
        if (!used[i])
            continue;
        add_item(l, dtype, (item){.kind = PARAMETER, .index = i});
        for (int slot = 0; slot < slots; slot++)
            add_item(l, dtype, (item){.kind = STATE, .index = i, .slot = slot});
    }
    for (size_t i = 0; i < yk_model_buffer_count(l->model); i++)
        if (!yki_model_is_constant(l->model, i))
            add_item(l, dtype, (item){.kind = BUFFER, .index = i});
}

/* Collective. Lists the items; ends[d] is the end of those of dtypes[d] in the block. */
static yk_status list_items(yk_local_sgd *l, size_t *ends)
{
    size_t parameters = yk_model_parameter_count(l->model);
    size_t most = parameters * (1 + YKI_MAX_SLOTS) + yk_model_buffer_count(l->model);
    int32_t *used = yki_calloc(parameters, sizeof *used);
    l->items = yki_calloc(most, sizeof *l->items);
    yk_status status = used && l->items ? find_used(l, used)
                                        : yki_error_memory(most * sizeof *l->items, "local SGD");
    for (int d = 0; d < DTYPES && status == YK_OK; d++) {
        add_items(l, dtypes[d], used);
        ends[d] = l->block.bytes;
    }
    free(used);
    return status;
}

/* Collective. The block, and a part of it for each dtype. */
static yk_status open_block(yk_local_sgd *l, const size_t *ends)
{
    size_t begin = 0;
    YK_TRY(yki_staging_create(&l->block, l->group, l->device, ends[DTYPES - 1]));
    for (int d = 0; d < DTYPES; begin = ends[d++])
        if (ends[d] > begin)
            YK_TRY(yki_staged_part_create(&l->parts[d], &l->block, (char *)l->block.memory + begin,
                                          (ends[d] - begin) / yk_dtype_size(dtypes[d]), dtypes[d]));
    return YK_OK;
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

static char *place_of(const yk_local_sgd *l, const item *of)
{
    return (char *)l->block.memory + of->offset;
}

/* A sweep over all items, or the parameters among them, whose spans `fill` completes. */
static yk_status make_sweep(yk_local_sgd *l, yki_sweep **sweep, bool parameters_only,
                            void (*fill)(const yk_local_sgd *l, const item *of, yki_span *span))
{
    size_t count = 0;
    yki_span *spans = yki_calloc(l->count, sizeof *spans);
    if (!spans)
        return yki_error_memory(l->count * sizeof *spans, "local SGD");
    for (size_t i = 0; i < l->count; i++) {
        yk_tensor tensor = find_tensor(l, &l->items[i]);
        if (parameters_only && l->items[i].kind != PARAMETER)
            continue;
        spans[count] = (yki_span){.dtype = tensor.dtype, .count = yk_tensor_count(&tensor)};
        fill(l, &l->items[i], &spans[count++]);
    }
    yk_status status = yki_sweep_create(sweep, l->device, spans, count);
    free(spans);
    return status;
}

static void fill_between(const yk_local_sgd *l, const item *of, yki_span *span)
{
    span->at[AT_BLOCK] = place_of(l, of);
}

static void fill_changes(const yk_local_sgd *l, const item *of, yki_span *span)
{
    span->at[AT_GRADIENT] = place_of(l, of);
    span->at[AT_START] = l->anchor + of->start;
}

static void fill_outer(const yk_local_sgd *l, const item *of, yki_span *span)
{
    span->at[AT_ANCHOR] = l->anchor + of->start;
    span->at[AT_CHANGE] = place_of(l, of);
    span->at[AT_MOMENTUM] = l->momentum ? yk_ema_value(l->momentum, of->index).data : NULL;
}

static yk_status send_coefficients(yk_local_sgd *l)
{
    void *values;
    const yk_local_sgd_options *o = &l->options;
    size_t bytes = COEFFICIENT_SETS * YKI_SWEEP_COEFFICIENTS * sizeof(double);
    YK_TRY(yki_block_create(&l->coefficients, l->device, bytes));
    YK_TRY(yki_block_open(&l->coefficients, &values));
    memset(values, 0, bytes);
    double(*sets)[YKI_SWEEP_COEFFICIENTS] = values;
    sets[MEAN][0] = 1.0 / yk_group_size(l->group);
    sets[CHANGE][0] = -1;
    sets[OUTER][YKI_SGD_LR] = o->outer_lr;
    sets[OUTER][YKI_SGD_MOMENTUM] = sets[OUTER][YKI_SGD_KEEP] = o->outer_momentum;
    sets[OUTER][YKI_SGD_TAKE] = 1;
    sets[OUTER][YKI_SGD_NESTEROV] = o->outer_nesterov;
    return yki_block_send(&l->coefficients, yki_device_stream(l->device));
}

/* `set` is one of the coefficients' above, or -1 for none. */
static yk_status run_sweep(const yk_local_sgd *l, yki_sweep *sweep, yki_sweep_op op, int set)
{
    const double *all = l->coefficients.memory;
    return yki_sweep_run(sweep, op, set < 0 ? NULL : all + set * YKI_SWEEP_COEFFICIENTS, NULL,
                         yki_device_stream(l->device));
}

/* Looks up where what is averaged lies now, and sweeps between it and the block. */
static yk_status run_between(yk_local_sgd *l, yki_sweep_op op)
{
    for (size_t i = 0; i < l->count; i++)
        yki_sweep_move(l->between, i, AT_LIVE, find_tensor(l, &l->items[i]).data);
    return run_sweep(l, l->between, op, -1);
}

/* ---- the outer optimizer --------------------------------------------------------------------- */

static yk_status make_outer(yk_local_sgd *l)
{
    void *anchor;
    const yk_ema_options plain = YK_EMA_OPTIONS_INIT;
    if (!has_outer(l))
        return YK_OK;
    YK_TRY(yki_device_alloc(l->device, l->anchor_bytes, &anchor));
    l->anchor = anchor;
    if (l->options.outer_momentum > 0) {
        YK_TRY(yki_average_create(&l->momentum, l->optimizer, &plain));
        yki_optimizer_set_outer_momentum(l->optimizer, l->momentum);
    }
    YK_TRY(make_sweep(l, &l->changes, true, fill_changes));
    return make_sweep(l, &l->outer, true, fill_outer);
}

/* The weights as they are: before the first step, and after a checkpoint has been loaded. */
static yk_status take_anchor(yk_local_sgd *l)
{
    YK_TRY(run_between(l, YKI_SWEEP_COPY));
    YK_TRY(run_sweep(l, l->outer, YKI_SWEEP_COPY, -1));
    l->is_anchored = true;
    return YK_OK;
}

/* The block has the mean, and gets the new weights, which are the next anchor. */
static yk_status step_outer(yk_local_sgd *l)
{
    YK_TRY(run_sweep(l, l->changes, YKI_SWEEP_ADD, CHANGE));
    YK_TRY(run_sweep(l, l->outer, YKI_SWEEP_SGD, OUTER));
    return run_sweep(l, l->changes, YKI_SWEEP_COPY, -1);
}

/* ---- averages -------------------------------------------------------------------------------- */

/* Ranks that come early wait here. */
static yk_status compare_steps(yk_local_sgd *l)
{
    double begin = yki_now();
    int64_t own = yk_optimizer_steps(l->optimizer);
    YK_TRY(yk_all_gather(l->group, l->ranks_steps, &own, 1, YK_I64, NULL));
    l->stats.waiting_s = yki_group_waited(l->group, begin);
    for (int rank = 1; rank < yk_group_size(l->group); rank++)
        if (l->ranks_steps[rank] != l->ranks_steps[0])
            return yki_error(YK_ERROR_MISMATCH,
                             "local SGD: rank %d has made %lld optimizer steps, rank %d %lld: all "
                             "ranks must make the same",
                             yki_group_job_rank(l->group, rank), (long long)l->ranks_steps[rank],
                             yki_group_job_rank(l->group, 0), (long long)l->ranks_steps[0]);
    return YK_OK;
}

static yk_status sum_block(yk_local_sgd *l)
{
    for (int d = 0; d < DTYPES; d++) {
        yk_work *work;
        if (!l->parts[d].staging)
            continue;
        YK_TRY(yki_staged_all_reduce(&l->parts[d], &work));
        if (work)
            YK_TRY(yk_work_wait(work));
        YK_TRY(yki_staged_part_land(&l->parts[d]));
    }
    return YK_OK;
}

static yk_status average(yk_local_sgd *l)
{
    double begin = yki_trace_begin();
    YK_TRY(run_between(l, YKI_SWEEP_COPY));
    double exchange = yki_now();
    YK_TRY(sum_block(l));
    l->stats.exposed_s = yki_staging_is_in_streams(&l->block) ? 0 : yki_now() - exchange;
    YK_TRY(run_sweep(l, l->between, YKI_SWEEP_SCALE, MEAN));
    if (has_outer(l))
        YK_TRY(step_outer(l));
    YK_TRY(run_between(l, YKI_SWEEP_SWAP));
    yk_model_parameters_changed(l->model);
    l->steps = 0;
    YKI_TRACE_END(begin, YKI_NO_ARGS, "average of ranks");
    return YK_OK;
}

yk_status yk_local_sgd_sync(yk_local_sgd *local)
{
    YKI_NOT_NULL(local);
    YK_TRY(compare_steps(local));
    return local->steps > 0 ? average(local) : YK_OK;
}

yk_local_sgd_stats yk_local_sgd_last_stats(const yk_local_sgd *local)
{
    return local ? local->stats : (yk_local_sgd_stats){0};
}

size_t yk_local_sgd_bytes(const yk_local_sgd *local)
{
    return local ? local->block.bytes : 0;
}

int64_t yk_local_sgd_steps(const yk_local_sgd *local)
{
    return local ? local->steps : 0;
}

/* ---- around steps ---------------------------------------------------------------------------- */

static yk_status before_step(void *context)
{
    yk_local_sgd *l = context;
    return has_outer(l) && !l->is_anchored ? take_anchor(l) : YK_OK;
}

static yk_status after_step(void *context)
{
    yk_local_sgd *l = context;
    l->steps++;
    return l->steps >= l->options.sync_every ? yk_local_sgd_sync(l) : YK_OK;
}

static void restart(void *context)
{
    yk_local_sgd *l = context;
    l->steps = 0;
    l->is_anchored = false;
}

static yk_status check_whole(const void *context)
{
    const yk_local_sgd *l = context;
    if (l->steps == 0)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "cannot save: ranks have trained on their own for %lld steps; "
                     "yk_local_sgd_sync averages their weights before a checkpoint",
                     (long long)l->steps);
}

/* ---- making ---------------------------------------------------------------------------------- */

static yk_status check_options(const yk_local_sgd_options *o)
{
    if (o->sync_every < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "local SGD: sync_every must be at least 1, not %lld",
                         (long long)o->sync_every);
    YK_TRY(yki_check_option("local SGD", "outer_lr", o->outer_lr, 0, 0));
    if (o->outer_lr == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "local SGD: outer_lr must be above 0");
    YK_TRY(yki_check_option("local SGD", "outer_momentum", o->outer_momentum, 0, 1));
    if (o->outer_nesterov && o->outer_momentum == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "local SGD: outer_nesterov needs an outer_momentum above 0");
    return YK_OK;
}

static yk_status compare_options(const yk_local_sgd *l)
{
    char text[256];
    const yk_local_sgd_options *o = &l->options;
    snprintf(text, sizeof text,
             "sync_every %lld\nouter_lr %.17g\nouter_momentum %.17g\nouter_nesterov %d\n"
             "average_state %d\n%d tensors of state for each parameter\n",
             (long long)o->sync_every, o->outer_lr, o->outer_momentum, o->outer_nesterov,
             o->average_state, yki_optimizer_slot_count(l->optimizer));
    return yki_compare_texts(l->group, "local SGD: options", text);
}

static yk_status build_local_sgd(yk_local_sgd *l)
{
    size_t ranks = (size_t)yk_group_size(l->group), ends[DTYPES];
    YK_TRY(compare_options(l));
    YK_TRY(yki_ddp_verify_model(l->model, l->group));
    YK_TRY(yki_ddp_broadcast_model(l->model, l->group, 0));
    l->ranks_steps = yki_calloc(ranks, sizeof *l->ranks_steps);
    if (!l->ranks_steps)
        return yki_error_memory(ranks * sizeof *l->ranks_steps, "local SGD");
    YK_TRY(list_items(l, ends));
    YK_TRY(open_block(l, ends));
    YK_TRY(make_sweep(l, &l->between, false, fill_between));
    YK_TRY(send_coefficients(l));
    return make_outer(l);
}

/* On failure *local may be there, to be destroyed. */
static yk_status make_local_sgd(yk_local_sgd **local, yk_optimizer *optimizer, yk_group *group,
                                const yk_local_sgd_options *given)
{
    yk_local_sgd_options options;
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_local_sgd_options, YK_LOCAL_SGD_OPTIONS_INIT));
    YK_TRY(check_options(&options));
    YK_TRY(yki_optimizer_check_free(optimizer, "local SGD"));
    yk_local_sgd *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "local SGD");
    yki_reference_init(&made->reference);
    yki_optimizer_retain(optimizer);
    yki_group_retain(group);
    made->optimizer = optimizer;
    made->model = optimizer->model;
    made->device = optimizer->device;
    made->group = group;
    made->options = options;
    *local = made;
    return build_local_sgd(made);
}

yk_status yk_local_sgd_create(yk_local_sgd **local, yk_optimizer *optimizer, yk_group *group,
                              const yk_local_sgd_options *options)
{
    yk_local_sgd *made = NULL;
    if (local)
        *local = NULL;
    YKI_NOT_NULL(group);
    yki_joint joint = yki_joint_begin(group);
    yk_status status = YKI_CHECK_NOT_NULL(local);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(optimizer);
    if (status == YK_OK)
        status = make_local_sgd(&made, optimizer, group, options);
    status = yki_joint_end(&joint, status);
    if (status != YK_OK) {
        yk_local_sgd_destroy(made);
        return status;
    }
    yki_optimizer_attach(optimizer, &(yki_step_hooks){.owner = "local SGD",
                                                      .before = before_step,
                                                      .after = after_step,
                                                      .restart = restart,
                                                      .check_whole = check_whole,
                                                      .context = made});
    *local = made;
    return YK_OK;
}

void yki_local_sgd_retain(yk_local_sgd *local)
{
    yki_reference_retain(&local->reference);
}

void yk_local_sgd_destroy(yk_local_sgd *local)
{
    if (!local || !yki_reference_release(&local->reference))
        return;
    yki_optimizer_detach(local->optimizer, local);
    if (local->momentum)
        yki_optimizer_set_outer_momentum(local->optimizer, NULL);
    yki_stream_wait(local->device, yki_device_stream(local->device));
    yki_sweep_destroy(local->outer);
    yki_sweep_destroy(local->changes);
    yki_sweep_destroy(local->between);
    yk_ema_destroy(local->momentum);
    yki_device_free(local->device, local->anchor, local->anchor_bytes);
    yki_block_destroy(&local->coefficients);
    for (int d = 0; d < DTYPES; d++)
        yki_staged_part_destroy(&local->parts[d]);
    yki_staging_destroy(&local->block);
    free(local->ranks_steps);
    free(local->items);
    yki_optimizer_release(local->optimizer);
    yki_group_release(local->group);
    free(local);
}
