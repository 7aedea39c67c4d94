/*
 * safetensors: the size of a header, the header (JSON: a dtype, a shape and a range of bytes for
 * each name), the bytes. As https://github.com/huggingface/safetensors describes it and its
 * reference implementation checks it: a header of at most 100 MB, no name twice, ranges without
 * overlap or holes, all of the file accounted for.
 */
#ifndef YKI_SAFETENSORS_H
#define YKI_SAFETENSORS_H

#include "checkpoint/tensor_file/tensor_file.h"

enum { YKI_SAFETENSORS_HEADER = 100000000 };

typedef struct yki_safetensors yki_safetensors;

yk_status yki_safetensors_open(yki_safetensors **file, const char *path);
/* Accepts NULL. */
void yki_safetensors_close(yki_safetensors *file);

size_t yki_safetensors_count(const yki_safetensors *file);
const char *yki_safetensors_name(const yki_safetensors *file, size_t index);
const yki_file_tensor *yki_safetensors_stored(const yki_safetensors *file, size_t index);
/* The word for a tensor whose dtype yoke does not read, such as "float8_e4m3fn"; else NULL. */
const char *yki_safetensors_unsupported_kind(const yki_safetensors *file, size_t index);
/* Reads the tensor's bytes, once. */
yk_status yki_safetensors_fetch(yki_safetensors *file, const yki_file_tensor *stored);
const void *yki_safetensors_storage(const yki_safetensors *file, const yki_file_tensor *stored);
/* The text under "yoke" in the metadata, the network's description; NULL where there is none. */
const char *yki_safetensors_info(const yki_safetensors *file);
/* Calls visit for the texts of the metadata, at most `limit` of them. */
void yki_safetensors_metadata(const yki_safetensors *file, int limit, yk_tensor_file_visit visit,
                              void *context);

/* Writes to the empty file fd; path is its name in error lines. */
yk_status yki_safetensors_write(int fd, const char *path, const yki_tensor_source *sources,
                                size_t count, const yk_model_info *info);

#endif
