/*
 * See tensor_file.h. A file is told by its first bytes: a zip archive, PyTorch's old pickle, or the
 * '{' that follows the size of a safetensors header.
 */
#include "checkpoint/tensor_file/tensor_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "checkpoint/tensor_file/dcp.h"
#include "checkpoint/tensor_file/safetensors.h"
#include "checkpoint/tensor_file/wrappers.h"
#include "io/input_file.h"
#include "io/zip.h"
#include "model/model_info.h"
#include "nn/model_info_json.h"
#include "tensor/tensor.h"

struct yk_tensor_file {
    char *path;
    uint64_t limit;               /* bytes that a tensor may take when made dense */
    size_t wrapper;               /* bytes of all names that are not the model's */
    yki_pth *pth;                 /* or NULL */
    const yki_pickle_value *dict; /* of the .pth file: the state_dict, or NULL */
    size_t *pairs, count;         /* those of its pairs that are tensors', and their number */
    yki_safetensors *safetensors; /* or NULL */
    yk_model_info *info;          /* once it has been asked for; NULL where the file has none */
};

/* ---- names --------------------------------------------------------------------------------- */

size_t yk_tensor_file_count(const yk_tensor_file *file)
{
    if (!file)
        return 0;
    return file->pth ? file->count : yki_safetensors_count(file->safetensors);
}

static const yki_pickle_value *key_of(const yk_tensor_file *file, size_t index)
{
    return yki_pickle_key(file->dict, file->pairs[index]);
}

static const yki_pickle_value *value_of(const yk_tensor_file *file, size_t index)
{
    return yki_pickle_pair_value(file->dict, file->pairs[index]);
}

const char *yki_tensor_file_name(const yk_tensor_file *file, size_t index, size_t *length)
{
    if (file->safetensors) {
        const char *name = yki_safetensors_name(file->safetensors, index);
        *length = strlen(name);
        return name;
    }
    const yki_pickle_value *key = key_of(file, index);
    *length = yki_pickle_is(key, YKI_PICKLE_STRING) ? key->count : 0;
    return yki_pickle_is(key, YKI_PICKLE_STRING) ? key->text : NULL;
}

/* How many bytes of a name a label shows: no character is cut. */
static size_t cut_name(const char *name, size_t length)
{
    size_t shown = length < YKI_TENSOR_LABEL / 2 ? length : YKI_TENSOR_LABEL / 2;
    while (shown > 0 && shown < length && (name[shown] & 0xc0) == 0x80)
        shown--;
    return shown;
}

const char *yki_tensor_file_label(const yk_tensor_file *file, size_t index,
                                  char label[YKI_TENSOR_LABEL])
{
    size_t length;
    const char *name = yki_tensor_file_name(file, index, &length);
    const yki_pickle_value *key = name ? NULL : key_of(file, index);
    size_t shown = name ? cut_name(name, length) : 0;
    if (name && yki_utf8_is_valid(name, shown) && !memchr(name, '\0', shown))
        snprintf(label, YKI_TENSOR_LABEL, "%.*s%s", (int)shown, name, shown < length ? "..." : "");
    else if (name)
        yki_utf8_escape(label, YKI_TENSOR_LABEL, name, length);
    else if (yki_pickle_is(key, YKI_PICKLE_INT))
        snprintf(label, YKI_TENSOR_LABEL, "%lld (an integer)", (long long)key->integer);
    else
        snprintf(label, YKI_TENSOR_LABEL, "a name that is not text");
    return label;
}

bool yki_is_n_averaged(const char *name, size_t length)
{
    static const char known[] = "n_averaged";
    return length == sizeof known - 1 && memcmp(name, known, length) == 0;
}

static bool name_in_file(const void *file, size_t index, const char **name, size_t *length)
{
    *name = yki_tensor_file_name(file, index, length);
    return !*name || !yki_is_n_averaged(*name, *length);
}

static size_t find_wrapper(const yk_tensor_file *file)
{
    return yki_common_wrapper(name_in_file, file, yk_tensor_file_count(file));
}

/* The word for a tensor that yoke does not read whatever it holds; NULL for others. */
static const char *unsupported_kind(const yk_tensor_file *file, size_t index)
{
    return file->pth ? yki_pth_unsupported_kind(value_of(file, index))
                     : yki_safetensors_unsupported_kind(file->safetensors, index);
}

/* ---- opening -------------------------------------------------------------------------------- */

typedef enum file_kind { ARCHIVE, LEGACY, PICKLE, TAR, SAFETENSORS, EMPTY, OTHER } file_kind;

static file_kind kind_of_file(const unsigned char *head, size_t size)
{
    /* The pickled number 0x1950a86a20f9469cfc6c, torch.serialization's MAGIC_NUMBER. */
    static const char legacy[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    if (size == 0)
        return EMPTY;
    if (size >= sizeof legacy - 1 && memcmp(head, legacy, sizeof legacy - 1) == 0)
        return LEGACY;
    if (size >= 262 && memcmp(head + 257, "ustar", 5) == 0)
        return TAR;
    if (size > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return PICKLE;
    if (size > 1 && memcmp(head, "PK", 2) == 0)
        return ARCHIVE;
    return size > 8 && head[8] == '{' ? SAFETENSORS : OTHER;
}

/* What a file begins with; its size goes to *size. */
static yk_status recognise_file(const char *path, file_kind *found, uint64_t *size)
{
    unsigned char head[512];
    yki_input_file file;
    YK_TRY(yki_input_file_open(&file, path));
    size_t length = file.size < sizeof head ? file.size : sizeof head;
    yk_status status = yki_input_file_read(&file, 0, head, length);
    *size = file.size;
    yki_input_file_close(&file);
    YK_TRY(status);
    *found = kind_of_file(head, length);
    return YK_OK;
}

static yk_status refuse_file_kind(const char *path, file_kind found)
{
    switch (found) {
    case EMPTY:
        return yki_error(YK_ERROR_FORMAT, "%s: expected a .pth or safetensors file, found it empty",
                         path);
    case LEGACY:
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: is in PyTorch's legacy format from before 1.6: load and save it "
                         "again with torch.save(torch.load(OLD), NEW)",
                         path);
    case TAR:
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: is a tar archive, PyTorch's format from before 0.4 if it is one of "
                         "PyTorch's: load and save it again with torch.save(torch.load(OLD), NEW)",
                         path);
    case PICKLE:
        return yki_error(YK_ERROR_FORMAT,
                         "%s: offset 0: expected a .pth or safetensors file, found a bare pickle",
                         path);
    default:
        return yki_error(YK_ERROR_FORMAT,
                         "%s: offset 0: expected a .pth or safetensors file, found neither", path);
    }
}

/* Whether this is the extra state of a module, as its get_extra_state() returned it: a value of any
 * type. */
static bool is_extra_state(const yki_pickle_value *key)
{
    static const char end[] = "_extra_state";
    size_t size = sizeof end - 1;
    return yki_pickle_is(key, YKI_PICKLE_STRING) && key->count >= size &&
           memcmp(key->text + key->count - size, end, size) == 0;
}

static bool holds_tensors(const yki_pickle_value *dict)
{
    size_t first = 0, pairs = yki_pickle_pairs(dict);
    while (first < pairs && is_extra_state(yki_pickle_key(dict, first)))
        first++;
    const yki_pickle_value *value = yki_pickle_pair_value(dict, first);
    return first < pairs && (yki_pth_is_tensor(value) || yki_pth_unsupported_kind(value));
}

/* The names that people use for a model in a checkpoint. */
static const char *const keys[] = {"model", "model_state_dict", "state_dict", "net"};
enum { KEYS = sizeof keys / sizeof *keys };

/* The state_dict: the whole file, or under one of the keys. */
static const yki_pickle_value *find_state_dict(const yki_pth *pth)
{
    const yki_pickle_value *root = yki_pth_root(pth);
    for (size_t i = 0; i < KEYS; i++) {
        const yki_pickle_value *value = yki_pickle_get(root, keys[i]);
        if (holds_tensors(value))
            return value;
    }
    return holds_tensors(root) ? root : NULL;
}

/* Makes the state_dict's tensors those of the file; dict may be NULL. */
static yk_status take_dict(yk_tensor_file *file, const yki_pickle_value *dict)
{
    size_t count = 0, pairs = yki_pickle_pairs(dict);
    size_t *taken = yki_calloc(pairs + 1, sizeof *taken);
    if (!taken)
        return yki_error_memory((pairs + 1) * sizeof *taken, "a list of tensors");
    for (size_t i = 0; i < pairs; i++)
        if (!is_extra_state(yki_pickle_key(dict, i)))
            taken[count++] = i;
    free(file->pairs);
    file->dict = dict;
    file->pairs = taken;
    file->count = count;
    return YK_OK;
}

/* An nn.Module itself, which only the code of its class could bring back. */
static bool is_module(const yki_pickle_value *value)
{
    return yki_pickle_get(yki_pickle_state(value), "_modules") != NULL;
}

/* The kinds of tensors in a file that yoke can read none of: "float8_e4m3fn, sparse". Empty when it
 * can read some. */
static void list_unsupported(const yk_tensor_file *file, char *kinds, size_t size)
{
    size_t at = 0;
    kinds[0] = '\0';
    for (size_t i = 0; i < yk_tensor_file_count(file); i++) {
        const char *kind = unsupported_kind(file, i);
        if (!kind) {
            kinds[0] = '\0';
            return;
        }
        if (!strstr(kinds, kind) && at + strlen(kind) + 3 < size)
            at += (size_t)snprintf(kinds + at, size - at, "%s%s", at ? ", " : "", kind);
    }
}

/* FSDP's files of one rank: tensors of which it has a part, and parameters flattened into one. */
static yk_status check_whole(const yk_tensor_file *file)
{
    for (size_t i = 0; file->pth && i < yk_tensor_file_count(file); i++) {
        static const char flat[] = "flat_param";
        size_t length, size = sizeof flat - 1;
        const char *name = yki_tensor_file_name(file, i, &length);
        bool flattened = name && length >= size && memcmp(name + length - size, flat, size) == 0;
        const yki_pickle_value *value = value_of(file, i);
        if (flattened || yki_pth_is_sharded(value))
            return yki_error(YK_ERROR_UNSUPPORTED,
                             "%s: holds one rank's part of a model that FSDP has sharded%s: save "
                             "the whole model in Python, with get_model_state_dict of "
                             "torch.distributed.checkpoint.state_dict and its full_state_dict=True",
                             file->path, flattened ? " and flattened" : "");
    }
    return YK_OK;
}

yk_status yki_tensor_file_check(const yk_tensor_file *file)
{
    char kinds[160];
    YK_TRY(check_whole(file));
    list_unsupported(file, kinds, sizeof kinds);
    if (kinds[0])
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: all its tensors are of kinds that yoke does not read (%s): convert "
                         "them to dense floats in Python, e.g. with .to_dense().float()",
                         file->path, kinds);
    if (yk_tensor_file_count(file) > 0)
        return YK_OK;
    const yki_pickle_value *root = file->pth ? yki_pth_root(file->pth) : NULL;
    bool module = is_module(root);
    for (size_t i = 0; i < KEYS; i++)
        module = module || is_module(yki_pickle_get(root, keys[i]));
    if (module)
        return yki_error(YK_ERROR_FORMAT,
                         "%s: holds a whole module, which only Python can load: expected its "
                         "state_dict, torch.save(model.state_dict(), FILE)",
                         file->path);
    if (yki_pickle_get(root, "param_groups"))
        return yki_error(YK_ERROR_FORMAT, "%s: holds an optimizer's state_dict: expected a model's",
                         file->path);
    return yki_error(YK_ERROR_FORMAT, "%s: expected a state_dict, or one under \"model\"",
                     file->path);
}

yk_status yki_tensor_file_choose(yk_tensor_file *file, const char *key)
{
    const yki_pickle_value *dict = file->pth ? yki_pickle_get(yki_pth_root(file->pth), key) : NULL;
    if (!holds_tensors(dict))
        return yki_error(YK_ERROR_NOT_FOUND, "%s: has no averaged weights, \"%s\"", file->path,
                         key);
    YK_TRY(take_dict(file, dict));
    file->wrapper = find_wrapper(file);
    return YK_OK;
}

static yk_status open_tensor_file(yk_tensor_file *file, const char *path)
{
    file_kind found = EMPTY;
    uint64_t size = 0;
    YK_TRY(yki_refuse_dcp(path));
    YK_TRY(recognise_file(path, &found, &size));
    file->limit = size * YKI_ZIP_FACTOR + YKI_ZIP_SLACK;
    file->path = yki_strdup(path);
    if (!file->path)
        return yki_error_memory(strlen(path), "a file's name");
    if (found == SAFETENSORS) {
        YK_TRY(yki_safetensors_open(&file->safetensors, path));
    } else if (found == ARCHIVE) {
        YK_TRY(yki_pth_open(&file->pth, path));
        YK_TRY(take_dict(file, find_state_dict(file->pth)));
    } else {
        return refuse_file_kind(path, found);
    }
    file->wrapper = find_wrapper(file);
    return YK_OK;
}

yk_status yk_tensor_file_open(yk_tensor_file **file, const char *path)
{
    YKI_NOT_NULL(file);
    *file = NULL;
    YKI_NOT_NULL(path);
    yk_tensor_file *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a file of tensors");
    yk_status status = open_tensor_file(made, path);
    if (status == YK_OK)
        *file = made;
    else
        yk_tensor_file_close(made);
    return status;
}

void yk_tensor_file_close(yk_tensor_file *file)
{
    if (!file)
        return;
    yki_model_info_destroy(file->info);
    yki_safetensors_close(file->safetensors);
    yki_pth_close(file->pth);
    free(file->pairs);
    free(file->path);
    free(file);
}

yk_status yk_tensor_file_info(yk_tensor_file *file, const yk_model_info **info)
{
    char *owned = NULL;
    const char *text = NULL;
    YKI_NOT_NULL(info);
    *info = NULL;
    YKI_NOT_NULL(file);
    *info = file->info;
    if (file->info)
        return YK_OK;
    if (file->pth)
        YK_TRY(yki_pth_read_info(file->pth, &owned));
    text = file->pth ? owned : yki_safetensors_info(file->safetensors);
    yk_status status = text ? yki_model_info_from_json(&file->info, file->path, text) : YK_OK;
    free(owned);
    *info = file->info;
    return status;
}

/* ---- what it holds -------------------------------------------------------------------------- */

const char *yki_tensor_file_path(const yk_tensor_file *file)
{
    return file->path;
}

yki_pth *yki_tensor_file_pth(const yk_tensor_file *file)
{
    return file->pth;
}

const yki_pickle_value *yki_tensor_file_dict(const yk_tensor_file *file)
{
    return file->dict;
}

struct yki_safetensors *yki_tensor_file_safetensors(const yk_tensor_file *file)
{
    return file->safetensors;
}

const char *yk_tensor_file_format(const yk_tensor_file *file)
{
    if (!file)
        return NULL;
    return file->pth ? "pth" : "safetensors";
}

size_t yki_tensor_file_wrapper(const yk_tensor_file *file)
{
    return file->wrapper;
}

int64_t yki_tensor_file_find(const yk_tensor_file *file, const char *name)
{
    size_t skip = file->wrapper, length;
    for (size_t i = yk_tensor_file_count(file); i-- > 0;) { /* the last of equals, as in Python */
        const char *text = yki_tensor_file_name(file, i, &length);
        if (text && length >= skip && yki_same_unwrapped(text + skip, length - skip, name))
            return (int64_t)i;
    }
    return -1;
}

/* offset: of the tensor in data.pkl, or "". */
static yk_status refuse_kind(const yk_tensor_file *file, size_t index, const char *offset,
                             const char *kind)
{
    char label[YKI_TENSOR_LABEL];
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "%s: %stensor %s is %s: yoke reads dense tensors of floats (16 to 64 bits), "
                     "integers and bools",
                     file->path, offset, yki_tensor_file_label(file, index, label), kind);
}

yk_status yki_tensor_file_stored(const yk_tensor_file *file, size_t index, yki_file_tensor *stored)
{
    int64_t count;
    size_t bytes;
    char label[YKI_TENSOR_LABEL], offset[48];
    const char *kind = unsupported_kind(file, index);
    if (file->safetensors && kind)
        return refuse_kind(file, index, "", kind);
    if (file->safetensors) {
        *stored = *yki_safetensors_stored(file->safetensors, index);
        return YK_OK;
    }
    const yki_pickle_value *value = value_of(file, index);
    snprintf(offset, sizeof offset, "data.pkl: offset %u: ", value->offset);
    if (kind)
        return refuse_kind(file, index, offset, kind);
    YK_TRY(yki_pth_stored(file->pth, value, stored));
    if (!yki_file_tensor_size(stored, &count, &bytes) || bytes > file->limit)
        return yki_error(YK_ERROR_FORMAT,
                         "%s: data.pkl: offset %u: %s would expand to far more than the file holds",
                         file->path, value->offset, yki_tensor_file_label(file, index, label));
    return YK_OK;
}

yk_status yki_tensor_file_check_total(const yk_tensor_file *file)
{
    uint64_t total = 0;
    for (size_t i = 0; i < yk_tensor_file_count(file); i++) {
        yk_tensor_entry entry;
        YK_TRY(yk_tensor_file_entry(file, i, &entry));
        total += entry.bytes;
        if (total > file->limit)
            return yki_error(YK_ERROR_FORMAT,
                             "%s: its tensors would expand to far more than it holds", file->path);
    }
    return YK_OK;
}

yk_status yki_tensor_file_fetch(yk_tensor_file *file, const yki_file_tensor *stored)
{
    return file->pth ? yki_pth_fetch(file->pth, stored)
                     : yki_safetensors_fetch(file->safetensors, stored);
}

const void *yki_tensor_file_storage(const yk_tensor_file *file, const yki_file_tensor *stored)
{
    return file->pth ? yki_pth_storage(file->pth, stored)
                     : yki_safetensors_storage(file->safetensors, stored);
}

/* The tensor's name, which must be UTF-8, without zeros, and leave room for one at its end. */
static yk_status read_name(const yk_tensor_file *file, size_t index, char name[YK_FILE_NAME])
{
    size_t length;
    char label[YKI_TENSOR_LABEL];
    const char *text = yki_tensor_file_name(file, index, &length);
    if (!text)
        return yki_error(YK_ERROR_FORMAT, "%s: tensor %zu: expected a text as its name, found %s",
                         file->path, index, yki_tensor_file_label(file, index, label));
    if (length >= YK_FILE_NAME)
        return yki_error(YK_ERROR_FORMAT, "%s: tensor %zu: expected a name shorter than %d bytes",
                         file->path, index, YK_FILE_NAME);
    if (!yki_utf8_is_valid(text, length))
        return yki_error(YK_ERROR_FORMAT, "%s: tensor %zu: its name \"%s\" is not valid UTF-8",
                         file->path, index, yki_tensor_file_label(file, index, label));
    if (memchr(text, '\0', length))
        return yki_error(YK_ERROR_FORMAT, "%s: tensor %zu: its name \"%s\" has a zero", file->path,
                         index, yki_tensor_file_label(file, index, label));
    memcpy(name, text, length);
    name[length] = '\0';
    return YK_OK;
}

yk_status yk_tensor_file_entry(const yk_tensor_file *file, size_t index, yk_tensor_entry *entry)
{
    yki_file_tensor stored;
    YKI_NOT_NULL(entry);
    *entry = (yk_tensor_entry){.dtype = ""};
    YKI_NOT_NULL(file);
    if (index >= yk_tensor_file_count(file))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: has no tensor %zu", file->path, index);
    YK_TRY(read_name(file, index, entry->name));
    const char *kind = unsupported_kind(file, index);
    entry->dtype = kind ? kind : "";
    YK_TRY(yki_tensor_file_stored(file, index, &stored));
    entry->dtype = stored.dtype->name;
    entry->ndim = stored.ndim;
    memcpy(entry->dims, stored.dims, sizeof stored.dims);
    yki_file_tensor_size(&stored, &entry->count, &entry->bytes);
    return YK_OK;
}

const char *yk_tensor_entry_shape(const yk_tensor_entry *entry, char *text, size_t size)
{
    return entry && text ? yki_dims_text(text, size, entry->ndim, entry->dims) : NULL;
}

yk_status yk_tensor_file_norm(yk_tensor_file *file, size_t index, double *norm)
{
    yki_file_tensor stored;
    YKI_NOT_NULL(norm);
    *norm = 0;
    YKI_NOT_NULL(file);
    if (index >= yk_tensor_file_count(file))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: has no tensor %zu", file->path, index);
    YK_TRY(yki_tensor_file_stored(file, index, &stored));
    YK_TRY(yki_tensor_file_fetch(file, &stored));
    *norm = yki_file_tensor_norm(&stored, yki_tensor_file_storage(file, &stored));
    return YK_OK;
}
