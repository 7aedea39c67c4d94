/* The "param_groups" of torch.optim's state_dict. */
#ifndef YKI_OPTIMIZER_GROUPS_H
#define YKI_OPTIMIZER_GROUPS_H

#include "checkpoint/tensor_file/pth.h"
#include "optim/optimizer.h"

/* A number of torch.optim's: a float, an int, a bool, or a tensor of one element, as Adam's step
 * is, and a rate that compiled code reads. what names it in the error line. */
yk_status yki_optimizer_number(yki_pth *pth, const yki_pickle_value *value, const char *what,
                               double *number);

/* Parameters are numbered as torch.optim does: group by group, in each in the model's order. */
void yki_optimizer_groups_write(yki_pickle_writer *pickle, const yk_optimizer *optimizer,
                                size_t parameters);

/* What a file says of the groups. */
typedef struct yki_optimizer_groups {
    yki_param_group *groups;
    size_t count;
    size_t *group_of; /* by parameter */
    int64_t *number;  /* by parameter: its key in "state" */
} yki_optimizer_groups;

/*
 * Files of yoke with several groups name the parameters, and the groups are taken as they are
 * there; others, as in torch.optim, must have the optimizer's groups, of the same sizes. dict: the
 * pickled state_dict of an optimizer, which must be of the same kind.
 */
yk_status yki_optimizer_groups_read(yki_optimizer_groups *groups, yki_pth *pth,
                                    const yki_pickle_value *dict, const yk_optimizer *optimizer,
                                    size_t parameters);
void yki_optimizer_groups_fini(yki_optimizer_groups *groups);

#endif
