/* What a loader was made of, for the layers above. */
#ifndef YKI_LOADER_H
#define YKI_LOADER_H

#include <yoke/data.h>

/* Whatever uses a loader keeps it alive, until it calls yk_loader_destroy. */
void yki_loader_retain(yk_loader *loader);
/* The options that it was created with. */
const yk_loader_options *yki_loader_options(const yk_loader *loader);
/* The number of ranks that share its data set, 1 without a group. */
int yki_loader_world_size(const yk_loader *loader);
const yk_dataset *yki_loader_dataset(const yk_loader *loader);
/* The epoch that the next batch is of. */
int64_t yki_loader_next_epoch(const yk_loader *loader);
/* As yk_loader_seek, but keeps what has been prepared where the loader is there already. */
yk_status yki_loader_go_to(yk_loader *loader, int64_t epoch, int64_t batch);
/* How many samples all ranks together have in the batches from `first` to before `end` of an epoch,
 * as each rank, or virtual rank, counts its own. */
int64_t yki_loader_samples(const yk_loader *loader, int64_t first, int64_t end);

#endif
