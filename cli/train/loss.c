/* What `yoke train` does about a loss that is no number. */
#include <math.h>
#include <stdlib.h>

#include "setup.h"
#include "train/train.h"

static bool complain(const cli_trainer *t, double loss)
{
    const char *text = isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf";
    return cli_complain("rank %d: step %lld: the loss is %s; training stops before the weights "
                        "take it: try a lower --lr than %g, --clip-grad-norm or --warmup-steps, "
                        "and go on from the last checkpoint",
                        yk_group_rank(t->world), (long long)t->state.step + 1, text, t->state.lr);
}

/* Everybody has the same sum, so that all ranks come here together. */
bool cli_trainer_check_loss(const cli_trainer *t, double sum, double own)
{
    if (isfinite(sum) || t->scaler)
        return true;
    int ranks = yk_group_size(t->world), first = 0;
    double *losses = calloc((size_t)ranks, sizeof *losses);
    if (!losses)
        return complain(t, own);
    if (cli_ok(yk_all_gather(t->world, losses, &own, 1, YK_F64, NULL))) {
        while (first < ranks - 1 && isfinite(losses[first]))
            first++;
        if (first == yk_group_rank(t->world))
            complain(t, own);
    }
    free(losses);
    return false;
}
