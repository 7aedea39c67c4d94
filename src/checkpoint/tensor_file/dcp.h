/* Distributed checkpoints of PyTorch (torch.distributed.checkpoint): a folder of .distcp files, the
 * parts of each rank, with a pickle of Python objects, .metadata, that says what they are. */
#ifndef YKI_DCP_H
#define YKI_DCP_H

#include "base/error.h"

/* YK_ERROR_UNSUPPORTED, with what converts it, for such a folder or a file of one. */
yk_status yki_refuse_dcp(const char *path);

#endif
