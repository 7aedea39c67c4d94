/*
 * PyTorch's .pth files, what torch.save writes since 1.6: a zip archive of one folder with a pickle
 * (data.pkl), in which each tensor is a call of torch._utils._rebuild_tensor_v2 on a storage, and
 * the storages' bytes (data/0, data/1, ...).
 */
#ifndef YKI_PTH_H
#define YKI_PTH_H

#include <yoke/model_info.h>
#include <yoke/tensor.h>

#include "base/error.h"
#include "checkpoint/tensor_file/file_tensor.h"
#include "checkpoint/tensor_file/snapshot.h"
#include "io/pickle.h"
#include "io/pickle_write.h"

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct yki_pth_writer yki_pth_writer;

/* Writes to the empty file fd, which stays the caller's; path is its name in error lines. */
yk_status yki_pth_writer_create(yki_pth_writer **writer, int fd, const char *path);
/* Where dicts, names and numbers go. */
yki_pickle_writer *yki_pth_pickle(yki_pth_writer *writer);
/* A tensor, in a storage of its own. Its data is not copied: it must stay until finish. */
yk_status yki_pth_tensor(yki_pth_writer *writer, const yk_tensor *tensor);
/* The same of a dtype that yoke may not compute with but torch knows; dense data, in the
 * memory of the device, or of the host if that is NULL. */
yk_status yki_pth_tensor_stored(yki_pth_writer *writer, const yki_file_tensor *stored,
                                const void *data, yk_device *device);
/* A float32 tensor without dimensions. */
yk_status yki_pth_scalar(yki_pth_writer *writer, float value);
/* Adds the network's description as the member extra/yoke.json, which torch.load ignores. info may
 * be NULL: nothing is added. */
yk_status yki_pth_info(yki_pth_writer *writer, const yk_model_info *info);
/* Adds the data of all tensors so far to a snapshot that will be taken. */
yk_status yki_pth_writer_add_to(const yki_pth_writer *writer, yki_snapshot *snapshot);
/* The archive is written from the snapshot, to which all tensors were added: from here on they may
 * change. */
void yki_pth_writer_use(yki_pth_writer *writer, yki_snapshot *snapshot);
/* Writes the archive and frees the writer, also on failure. */
yk_status yki_pth_writer_finish(yki_pth_writer *writer);
/* Accepts NULL. */
void yki_pth_writer_discard(yki_pth_writer *writer);

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct yki_pth yki_pth;

/* Reads and checks the pickle. */
yk_status yki_pth_open(yki_pth **pth, const char *path);
/* Accepts NULL. */
void yki_pth_close(yki_pth *pth);

/* The text of the network's description, to be freed; *text is NULL where the file has none. */
yk_status yki_pth_read_info(yki_pth *pth, char **text);
const char *yki_pth_path(const yki_pth *pth);
const yki_pickle *yki_pth_file_pickle(const yki_pth *pth);
const yki_pickle_value *yki_pth_root(const yki_pth *pth);
/* The arguments of _rebuild_tensor_v2, the usual form of a tensor, also of one with attributes of
 * its own as FSDP gathers them, or those of _rebuild_tensor_v3, which begin alike; NULL for other
 * values, and where yoke does not read the dtype. */
const yki_pickle_value *yki_pth_tensor_arguments(const yki_pickle_value *value);
/* The dtype that the arguments of _rebuild_tensor_v3 name, for which torch has no storage class,
 * such as uint16; NULL for others, and for the arguments of _rebuild_tensor_v2. */
const yki_file_tensor_dtype *yki_pth_named_dtype(const yki_pickle_value *arguments);
/* Whether the value has one of these forms. */
bool yki_pth_is_tensor(const yki_pickle_value *value);
/* The tensor of an nn.Parameter, which is a call on it; any other value as it is. */
const yki_pickle_value *yki_pth_unwrap_parameter(const yki_pickle_value *value);
/* The word for a tensor that yoke does not read whatever it holds, such as "complex64" or "sparse";
 * NULL for other tensors and values. */
const char *yki_pth_unsupported_kind(const yki_pickle_value *value);
/* Whether it is a tensor of which the file holds one rank's part: a DTensor or ShardedTensor. */
bool yki_pth_is_sharded(const yki_pickle_value *value);
/* The tensor of a value, checked to lie within its storage, whose bytes are not read yet. */
yk_status yki_pth_stored(const yki_pth *pth, const yki_pickle_value *value,
                         yki_file_tensor *stored);
/* Reads the bytes of the tensor's storage, once. */
yk_status yki_pth_fetch(yki_pth *pth, const yki_file_tensor *stored);
/* The bytes, once fetched. */
const void *yki_pth_storage(const yki_pth *pth, const yki_file_tensor *stored);
/* Copies a fetched tensor, made dense, into one of the same shape, converting as needed. Cannot
 * fail if that is in host memory. */
yk_status yki_pth_copy(const yki_pth *pth, const yki_file_tensor *stored, const yk_tensor *tensor);

#endif
