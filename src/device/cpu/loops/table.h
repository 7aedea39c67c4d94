/* The bodies of all inner loops and their table, for YKI_WIDTH lanes under the name YKI_LOOPS. */
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/vector.h"

#include "device/cpu/loops/sums.h"

#include "device/cpu/loops/attention.h"
#include "device/cpu/loops/avg_pool.h"
#include "device/cpu/loops/blocks.h"
#include "device/cpu/loops/dropout.h"
#include "device/cpu/loops/gate_math.h"
#include "device/cpu/loops/interpolate.h"
#include "device/cpu/loops/limits.h"
#include "device/cpu/loops/loss.h"
#include "device/cpu/loops/map.h"
#include "device/cpu/loops/norm.h"
#include "device/cpu/loops/pool.h"
#include "device/cpu/loops/recurrent.h"
#include "device/cpu/loops/rows.h"
#include "device/cpu/loops/small_norm.h"

typedef float gate_number;

YKI_FORCE_INLINE yki_lanes gate_add(yki_lanes sum, float a, yki_lanes b)
{
    return sum + a * b;
}

#include "device/cpu/loops/gate_product.h"
#include "device/cpu/loops/recurrent_layer.h"

#include "device/cpu/loops/amax.h"

/* Of gradients of weights: results whose products are summed before the sum is added to the total,
 * at least, so that rounding errors stay small. */
enum { SUM_PIXELS = 512 };
#include "device/cpu/loops/depthwise.h"
#include "device/cpu/loops/depthwise_strided.h"
#include "device/cpu/loops/narrow_f32.h"

const yki_cpu_loops YKI_LOOPS = {.pack = YKI_PACK,
                                 .moments = moments,
                                 .normalise = normalise,
                                 .gradient_sums = gradient_sums,
                                 .gradient = gradient,
                                 .small_moments = small_moments,
                                 .small_normalise = small_normalise,
                                 .small_gradient_sums = small_gradient_sums,
                                 .small_gradient = small_gradient,
                                 .small_group = small_group,
                                 .small_group_slopes = small_group_slopes,
                                 .small_groups_slopes = small_groups_slopes,
                                 .map = map,
                                 .multiply_pixels = multiply_pixels,
                                 .draw = draw,
                                 .drop_drawn = drop_drawn,
                                 .drop = drop,
                                 .lstm_cell = lstm_cell,
                                 .lstm_cell_slopes = lstm_cell_slopes,
                                 .gru_cell = gru_cell,
                                 .gru_cell_slopes = gru_cell_slopes,
                                 .gates = GATE_LOOPS,
                                 .sum = sum,
                                 .sum_rows = sum_rows,
                                 .sum_pixels = sum_pixels,
                                 .join_sums = join_sums,
                                 .loss_sum = loss_sum,
                                 .loss_slopes = loss_slopes,
                                 .softmax.row = softmax,
                                 .softmax.slopes = softmax_slopes,
                                 .softmax.lanes = softmax_lanes,
                                 .softmax.lane_slopes = softmax_lane_slopes,
                                 .log_softmax.row = log_softmax,
                                 .log_softmax.slopes = log_softmax_slopes,
                                 .log_softmax.lanes = log_softmax_lanes,
                                 .log_softmax.lane_slopes = log_softmax_lane_slopes,
                                 .extreme_rows = extreme_rows,
                                 .extreme_columns = extreme_columns,
                                 .extreme_channels = extreme_channels,
                                 .extreme_row_slopes = extreme_row_slopes,
                                 .extreme_column_slopes = extreme_column_slopes,
                                 .extreme_channel_slopes = extreme_channel_slopes,
                                 .normalise_rows = normalise_rows,
                                 .row_slopes = row_slopes,
                                 .scale_rows = scale_rows,
                                 .scaled_row_slopes = scaled_row_slopes,
                                 .weigh_targets = weigh_targets,
                                 .target_slopes = target_slopes,
                                 .unblock = unblock,
                                 .block = block,
                                 .pixel_losses = pixel_losses,
                                 .pixel_slopes = pixel_slopes,
                                 .depthwise_gradient = depthwise_gradient,
                                 .depthwise_forward = depthwise_forward,
                                 .depthwise_data = depthwise_data,
                                 .narrow_convolve = narrow_convolve,
                                 .narrow_gradient = narrow_gradient,
                                 .max_pool = max_pool,
                                 .max_pool_backward = max_pool_backward,
                                 .average = average,
                                 .sum_weighted = sum_weighted,
                                 .mix_pixels = mix_pixels,
                                 .mix_numbers = mix_numbers,
                                 .multiply = multiply,
                                 .take_rows = take_rows,
                                 .give_rows = give_rows,
                                 .turn = turn,
                                 .turn_halves = turn_halves,
                                 .turn_rows = turn_rows,
                                 .masked_softmax = masked_softmax,
                                 .masked_softmax_slopes = masked_softmax_slopes,
                                 .multiply_add = multiply_add};
