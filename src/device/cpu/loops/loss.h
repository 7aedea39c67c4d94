/* Losses over pairs of elements and of pixels: included by table.h alone. */

/* log(1 + u) from 0 to 1, to about 2 units in the last place: 2 atanh(s) with s = u / (2 + u). */
YKI_FORCE_INLINE yki_lanes log_of_1_plus(yki_lanes u)
{
    yki_lanes s = u / (2.0f + u), z = s * s;
    yki_lanes p = yki_splat(1 / 13.0f);
    p = p * z + 1 / 11.0f;
    p = p * z + 1 / 9.0f;
    p = p * z + 1 / 7.0f;
    p = p * z + 1 / 5.0f;
    p = p * z + 1 / 3.0f;
    return 2.0f * (p * z * s + s);
}

/* See device/loss_rules.h. */
YKI_FORCE_INLINE yki_lanes loss_of(yki_loss_op op, yki_lanes x, yki_lanes target, yki_lanes weight,
                                   float beta)
{
    yki_lanes zero = {0};
    if (op == YKI_LOSS_MSE)
        return (x - target) * (x - target);
    if (op == YKI_LOSS_SMOOTH_L1) {
        yki_lanes d = x - target, distance = yki_abs(d);
        return yki_select((yki_bits)(distance < beta), d * d * (0.5f / beta),
                          distance - 0.5f * beta);
    }
    yki_lanes negative = yki_select((yki_bits)(x < zero), -x, zero);
    yki_lanes softplus = log_of_1_plus(yki_exp(-yki_abs(x))) + negative;
    return (1.0f - target) * x + (1.0f + (weight - 1.0f) * target) * softplus;
}

YKI_FORCE_INLINE yki_lanes slope_of(yki_loss_op op, yki_lanes x, yki_lanes target, yki_lanes weight,
                                    float beta)
{
    if (op == YKI_LOSS_MSE)
        return 2.0f * (x - target);
    if (op == YKI_LOSS_SMOOTH_L1) {
        yki_lanes d = x - target, slope = beta > 0 ? d * (1 / beta) : d;
        slope = yki_select((yki_bits)(d > beta), yki_splat(1), slope);
        return yki_select((yki_bits)(d < -beta), yki_splat(-1), slope);
    }
    return (1.0f + (weight - 1.0f) * target) / (1.0f + yki_exp(-x)) - weight * target;
}

/* All of a pack, or the first `count` of it. */
YKI_FORCE_INLINE yki_pack load_up_to(const float *from, int64_t element, int64_t count)
{
    return count < YKI_PACK ? yki_load_part(from, element, count, YK_F32)
                            : yki_load(from, element, YK_F32);
}

YKI_FORCE_INLINE void store_up_to(float *to, int64_t element, int64_t count, yki_pack x)
{
    if (count < YKI_PACK)
        yki_store_part(to, element, count, x, YK_F32);
    else
        yki_store(to, element, x, YK_F32);
}

YKI_FORCE_INLINE double loss_sum_as(yki_loss_op op, const float *x, const float *target,
                                    const float *weights, float beta, int64_t count)
{
    wide_sum total = {{{0}}};
    for (int64_t i = 0; i < count; i += YKI_PACK) {
        yki_pack p = load_up_to(x, i, count - i), q = load_up_to(target, i, count - i), r = p;
        if (weights)
            r = load_up_to(weights, i, count - i);
        for (int j = 0; j < 2; j++)
            p.v[j] = loss_of(op, p.v[j], q.v[j], weights ? r.v[j] : yki_splat(1), beta);
        if (count - i < YKI_PACK) { /* what was not loaded has a loss, too */
            float part[YKI_PACK] = {0};
            yki_store_part(part, 0, count - i, p, YK_F32);
            p = yki_load(part, 0, YK_F32);
        }
        for (int j = 0; j < 2; j++)
            add_lanes(&total, p.v[j]);
    }
    return sum_of_lanes(&total);
}

static double loss_sum(yki_loss_op op, const float *x, const float *target, const float *weights,
                       float beta, int64_t count)
{
    if (op == YKI_LOSS_MSE)
        return loss_sum_as(YKI_LOSS_MSE, x, target, NULL, 0, count);
    if (op == YKI_LOSS_SMOOTH_L1)
        return loss_sum_as(YKI_LOSS_SMOOTH_L1, x, target, NULL, beta, count);
    return weights ? loss_sum_as(YKI_LOSS_BCE, x, target, weights, 0, count)
                   : loss_sum_as(YKI_LOSS_BCE, x, target, NULL, 0, count);
}

YKI_FORCE_INLINE void loss_slopes_as(yki_loss_op op, const float *x, const float *target,
                                     const float *weights, float *dx, float beta, float factor,
                                     int64_t count)
{
    for (int64_t i = 0; i < count; i += YKI_PACK) {
        yki_pack p = load_up_to(x, i, count - i), q = load_up_to(target, i, count - i), r = p;
        if (weights)
            r = load_up_to(weights, i, count - i);
        for (int j = 0; j < 2; j++)
            p.v[j] = factor * slope_of(op, p.v[j], q.v[j], weights ? r.v[j] : yki_splat(1), beta);
        store_up_to(dx, i, count - i, p);
    }
}

static void loss_slopes(yki_loss_op op, const float *x, const float *target, const float *weights,
                        float *dx, float beta, float factor, int64_t count)
{
    if (op == YKI_LOSS_MSE)
        loss_slopes_as(YKI_LOSS_MSE, x, target, NULL, dx, 0, factor, count);
    else if (op == YKI_LOSS_SMOOTH_L1)
        loss_slopes_as(YKI_LOSS_SMOOTH_L1, x, target, NULL, dx, beta, factor, count);
    else if (weights)
        loss_slopes_as(YKI_LOSS_BCE, x, target, weights, dx, 0, factor, count);
    else
        loss_slopes_as(YKI_LOSS_BCE, x, target, NULL, dx, 0, factor, count);
}

/* ---- cross_entropy of pixels ----------------------------------------------------------------- */

/* Numbers of the pixels of a pack. */
typedef struct pack_numbers {
    float largest[YKI_PACK], log_sum[YKI_PACK];
    float distance[YKI_PACK]; /* of all logits below the largest, weighted, or by their targets */
    float total[YKI_PACK];    /* of the targets */
} pack_numbers;

/* The targets of a class, if labels are probabilities. */
YKI_FORCE_INLINE yki_lanes soft_target(const yki_pixel_loss *k, int64_t c, yki_lanes labels)
{
    const float rest = k->smoothing / (float)k->classes, weight = k->weights ? k->weights[c] : 1;
    return (rest + (1 - k->smoothing) * labels) * weight;
}

/* Of the pack: the largest logit, the logarithm of the sum of exp() relative to it, and what the
 * weighted logits are below it. Writes the logarithm of the whole sum unless NULL. Labels are NULL
 * if they are classes. */
YKI_FORCE_INLINE void measure_pixels(const yki_pixel_loss *k, const float *logits,
                                     const float *labels, float *log_sums, int64_t count,
                                     pack_numbers *numbers)
{
    yki_pack largest = load_up_to(logits, 0, count);
    yki_pack sum = {{{0}}}, distance = {{{0}}}, total = {{{0}}};
    for (int64_t c = 1; c < k->classes; c++) {
        yki_pack x = load_up_to(logits, c * k->pixels, count);
        for (int j = 0; j < 2; j++)
            largest.v[j] = yki_larger(x.v[j], largest.v[j]);
    }
    for (int64_t c = 0; c < k->classes; c++) {
        yki_pack x = load_up_to(logits, c * k->pixels, count), label = x;
        const float weight = k->weights ? k->weights[c] : 1;
        if (labels)
            label = load_up_to(labels, c * k->label_pixels, count);
        for (int j = 0; j < 2; j++) {
            const yki_lanes zero = {0};
            x.v[j] -= largest.v[j];
            if (labels) {
                const yki_lanes target = soft_target(k, c, label.v[j]);
                total.v[j] += target;
                distance.v[j] += target * yki_select((yki_bits)(target == zero), zero, x.v[j]);
            } else
                distance.v[j] += weight * x.v[j];
            sum.v[j] += yki_exp_or_zero(x.v[j]);
        }
    }
    for (int j = 0; j < 2; j++)
        sum.v[j] = yki_log(sum.v[j]);
    yki_store(numbers->largest, 0, largest, YK_F32);
    yki_store(numbers->log_sum, 0, sum, YK_F32);
    for (int j = 0; j < 2; j++)
        sum.v[j] += largest.v[j];
    if (log_sums)
        store_up_to(log_sums, 0, count, sum);
    yki_store(numbers->distance, 0, distance, YK_F32);
    yki_store(numbers->total, 0, total, YK_F32);
}

/* The losses of a pack, whose labels are classes. */
YKI_FORCE_INLINE void add_losses(const yki_pixel_loss *k, const float *logits,
                                 const int32_t *labels, const pack_numbers *n, int64_t count,
                                 yki_pixel_sums *sums)
{
    const float share = k->smoothing / (float)k->classes;
    yki_pixel_sums total = *sums; /* in registers */
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] == k->ignored)
            continue;
        const float weight = k->weights ? k->weights[labels[i]] : 1;
        float below = logits[labels[i] * k->pixels + i] - n->largest[i];
        float loss = weight * (1 - k->smoothing) * (n->log_sum[i] - below);
        if (share != 0) /* distance may be infinite */
            loss += share * (k->weight_sum * n->log_sum[i] - n->distance[i]);
        total.losses += loss;
        total.weights += weight;
    }
    *sums = total;
}

YKI_FORCE_INLINE void add_soft_losses(const pack_numbers *n, int64_t count, yki_pixel_sums *sums)
{
    for (int64_t i = 0; i < count; i++)
        sums->losses += n->total[i] * n->log_sum[i] - n->distance[i];
    sums->weights += (double)count;
}

static void pixel_losses(const yki_pixel_loss *k, const float *logits, const void *labels,
                         float *log_sums, int64_t count, yki_pixel_sums *sums)
{
    pack_numbers n;
    for (int64_t at = 0; at < count; at += YKI_PACK) {
        const int64_t left = count - at < YKI_PACK ? count - at : YKI_PACK;
        float *kept = log_sums ? log_sums + at : NULL;
        const float *soft = k->soft ? (const float *)labels + at : NULL;
        if (soft && left == YKI_PACK)
            measure_pixels(k, logits + at, soft, kept, YKI_PACK, &n);
        else if (left == YKI_PACK)
            measure_pixels(k, logits + at, NULL, kept, YKI_PACK, &n);
        else
            measure_pixels(k, logits + at, soft, kept, left, &n);
        if (soft)
            add_soft_losses(&n, left, sums);
        else
            add_losses(k, logits + at, (const int32_t *)labels + at, &n, left, sums);
    }
}

/* The probabilities of class c. */
YKI_FORCE_INLINE yki_pack shares_of_class(const yki_pixel_loss *k, const float *logits, int64_t c,
                                          const yki_pack *log_sums, int64_t count)
{
    yki_pack p = load_up_to(logits, c * k->pixels, count);
    for (int j = 0; j < 2; j++)
        p.v[j] = yki_exp_or_zero(p.v[j] - log_sums->v[j]);
    return p;
}

YKI_FORCE_INLINE void class_slopes(const yki_pixel_loss *k, const float *logits,
                                   const float *log_sums, const int32_t *labels, float *dlogits,
                                   float factor, int64_t count)
{
    const yki_pack sums = load_up_to(log_sums, 0, count);
    const float share = k->smoothing / (float)k->classes;
    float slope[YKI_PACK] = {0}, even[YKI_PACK] = {0}, own[YKI_PACK] = {0};
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] == k->ignored)
            continue;
        own[i] = factor * (k->weights ? k->weights[labels[i]] : 1) * (1 - k->smoothing);
        even[i] = factor * share;
        slope[i] = own[i] + even[i] * k->weight_sum;
    }
    const yki_pack slopes = yki_load(slope, 0, YK_F32), evens = yki_load(even, 0, YK_F32);
    for (int64_t c = 0; c < k->classes; c++) {
        yki_pack p = shares_of_class(k, logits, c, &sums, count);
        const float weight = k->weights ? k->weights[c] : 1;
        for (int j = 0; j < 2; j++)
            p.v[j] = p.v[j] * slopes.v[j] - weight * evens.v[j];
        store_up_to(dlogits, c * k->pixels, count, p);
    }
    for (int64_t i = 0; i < count; i++)
        if (labels[i] != k->ignored)
            dlogits[labels[i] * k->pixels + i] -= own[i];
}

YKI_FORCE_INLINE void soft_slopes(const yki_pixel_loss *k, const float *logits,
                                  const float *log_sums, const float *labels, float *dlogits,
                                  float factor, int64_t count)
{
    const yki_pack sums = load_up_to(log_sums, 0, count);
    yki_pack total = {{{0}}};
    for (int64_t c = 0; c < k->classes; c++) {
        const yki_pack label = load_up_to(labels, c * k->label_pixels, count);
        for (int j = 0; j < 2; j++)
            total.v[j] += soft_target(k, c, label.v[j]);
    }
    for (int64_t c = 0; c < k->classes; c++) {
        const yki_pack label = load_up_to(labels, c * k->label_pixels, count);
        yki_pack p = shares_of_class(k, logits, c, &sums, count);
        for (int j = 0; j < 2; j++)
            p.v[j] = (total.v[j] * p.v[j] - soft_target(k, c, label.v[j])) * factor;
        store_up_to(dlogits, c * k->pixels, count, p);
    }
}

static void pixel_slopes(const yki_pixel_loss *k, const float *logits, const float *log_sums,
                         const void *labels, float *dlogits, float factor, int64_t count)
{
    for (int64_t at = 0; at < count; at += YKI_PACK) {
        const int64_t left = count - at < YKI_PACK ? count - at : YKI_PACK;
        const float *x = logits + at, *sums = log_sums + at;
        if (k->soft && left == YKI_PACK)
            soft_slopes(k, x, sums, (const float *)labels + at, dlogits + at, factor, YKI_PACK);
        else if (k->soft)
            soft_slopes(k, x, sums, (const float *)labels + at, dlogits + at, factor, left);
        else if (left == YKI_PACK)
            class_slopes(k, x, sums, (const int32_t *)labels + at, dlogits + at, factor, YKI_PACK);
        else
            class_slopes(k, x, sums, (const int32_t *)labels + at, dlogits + at, factor, left);
    }
}
