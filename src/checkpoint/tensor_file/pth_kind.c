/*
 * What a pickled value is: a tensor in its usual form, or one of a kind that yoke does not read
 * (complex, float8, quantized, sparse and so on). A pickle holds each as a call of a function of
 * torch._utils, so that they can be named, and a state_dict is recognised even if yoke can read
 * none of its tensors.
 */
#include "checkpoint/tensor_file/pth.h"

#include <string.h>

enum { V3_DTYPE = 6 }; /* argument of _rebuild_tensor_v3 */

/* ---- the usual form ------------------------------------------------------------------------- */

const yki_pickle_value *yki_pth_unwrap_parameter(const yki_pickle_value *value)
{
    if (yki_pickle_is_call(value, "torch._utils", "_rebuild_parameter") ||
        yki_pickle_is_call(value, "torch._utils", "_rebuild_parameter_with_state"))
        return yki_pickle_item(yki_pickle_arguments(value), 0);
    return value;
}

const yki_file_tensor_dtype *yki_pth_named_dtype(const yki_pickle_value *arguments)
{
    const yki_file_tensor_dtype *dtype;
    const yki_pickle_value *global = yki_pickle_item(arguments, V3_DTYPE);
    for (size_t i = 0; (dtype = yki_file_tensor_dtype_at(i)); i++)
        if (!dtype->storage && yki_pickle_is_global(global, "torch", dtype->name))
            return dtype;
    return NULL;
}

const yki_pickle_value *yki_pth_tensor_arguments(const yki_pickle_value *value)
{
    value = yki_pth_unwrap_parameter(value);
    const yki_pickle_value *arguments = yki_pickle_arguments(value);
    if (yki_pickle_is_call(value, "torch._utils", "_rebuild_tensor_v2"))
        return arguments;
    if (yki_pickle_is_call(value, "torch._utils", "_rebuild_tensor_v3") &&
        yki_pth_named_dtype(arguments))
        return arguments;
    /* (_rebuild_tensor_v2, torch.Tensor, its arguments, a dict of attributes) */
    bool has_attributes =
        yki_pickle_is_call(value, "torch._tensor", "_rebuild_from_type_v2") &&
        yki_pickle_is_global(yki_pickle_item(arguments, 0), "torch._utils", "_rebuild_tensor_v2") &&
        yki_pickle_is_global(yki_pickle_item(arguments, 1), "torch", "Tensor");
    return has_attributes ? yki_pickle_item(arguments, 2) : NULL;
}

bool yki_pth_is_tensor(const yki_pickle_value *value)
{
    return yki_pth_tensor_arguments(value) != NULL;
}

/* ---- other kinds ---------------------------------------------------------------------------- */

/* A pickled global "MODULE\nNAME" and the word for the tensors that it stands for. */
typedef struct kind_of_global {
    const char *module, *name, *kind;
} kind_of_global;

static const kind_of_global functions[] = {
    {"torch._utils", "_rebuild_qtensor", "quantized"},
    {"torch._utils", "_rebuild_sparse_tensor", "sparse"},
    {"torch._utils", "_rebuild_sparse_csr_tensor", "sparse"},
    {"torch._utils", "_rebuild_nested_tensor", "nested"},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", "meta"},
    {"torch._utils", "_rebuild_wrapper_subclass", "tensor subclass"},
    {"torch._utils", "_rebuild_device_tensor_from_numpy", "device tensor"},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", "device tensor"},
    {"torch._tensor", "_rebuild_from_type", "tensor subclass"},
    {"torch._tensor", "_rebuild_from_type_v2", "tensor subclass"},
};

static const kind_of_global storages[] = {
    {"torch", "ComplexFloatStorage", "complex64"}, {"torch", "ComplexDoubleStorage", "complex128"},
    {"torch", "QInt8Storage", "quantized"},        {"torch", "QUInt8Storage", "quantized"},
    {"torch", "QInt32Storage", "quantized"},
};

/* Others of torch's dtypes without a storage class: _rebuild_tensor_v3 has them as an argument. */
static const kind_of_global dtypes[] = {
    {"torch", "complex32", "complex32"},
    {"torch", "float8_e4m3fn", "float8_e4m3fn"},
    {"torch", "float8_e5m2", "float8_e5m2"},
    {"torch", "float8_e4m3fnuz", "float8_e4m3fnuz"},
    {"torch", "float8_e5m2fnuz", "float8_e5m2fnuz"},
    {"torch", "float8_e8m0fnu", "float8_e8m0fnu"},
    {"torch", "float4_e2m1fn_x2", "float4_e2m1fn_x2"},
};

#define FIND_KIND(table, global) find_kind(table, sizeof(table) / sizeof *(table), global)

static const char *find_kind(const kind_of_global *table, size_t count,
                             const yki_pickle_value *global)
{
    for (size_t i = 0; i < count; i++)
        if (yki_pickle_is_global(global, table[i].module, table[i].name))
            return table[i].kind;
    return NULL;
}

/* Of a storage's persistent id, ('storage', CLASS, ...). */
static const char *kind_of_storage(const yki_pickle_value *storage)
{
    const yki_pickle_value *id =
        yki_pickle_is(storage, YKI_PICKLE_PERSISTENT) ? storage->items[0] : NULL;
    return FIND_KIND(storages, yki_pickle_item(id, 1));
}

/* Whether a global is a class of this name, in whichever module this version of PyTorch has it. */
static bool is_class(const yki_pickle_value *global, const char *name)
{
    size_t size = strlen(name);
    return global && global->type == YKI_PICKLE_GLOBAL && global->count > size &&
           global->text[global->count - size - 1] == '\n' &&
           memcmp(global->text + global->count - size, name, size) == 0;
}

/* The class of a tensor of which each rank has a part: (_rebuild_wrapper_subclass, CLASS, ...). */
static const char *sharded_class(const yki_pickle_value *value)
{
    bool wrapped = yki_pickle_is_call(value, "torch._tensor", "_rebuild_from_type_v2");
    const yki_pickle_value *global =
        wrapped ? yki_pickle_item(yki_pickle_arguments(value), 1) : NULL;
    return is_class(global, "DTensor")         ? "DTensor"
           : is_class(global, "ShardedTensor") ? "ShardedTensor"
                                               : NULL;
}

bool yki_pth_is_sharded(const yki_pickle_value *value)
{
    return sharded_class(yki_pth_unwrap_parameter(value)) != NULL;
}

const char *yki_pth_unsupported_kind(const yki_pickle_value *value)
{
    const yki_pickle_value *usual = yki_pth_tensor_arguments(value);
    if (usual)
        return kind_of_storage(yki_pickle_item(usual, 0));
    value = yki_pth_unwrap_parameter(value);
    const yki_pickle_value *arguments = yki_pickle_arguments(value);
    if (sharded_class(value))
        return sharded_class(value);
    if (yki_pickle_is_call(value, "torch._utils", "_rebuild_tensor_v3")) {
        const char *kind = FIND_KIND(dtypes, yki_pickle_item(arguments, V3_DTYPE));
        return kind ? kind : "unknown dtype";
    }
    return FIND_KIND(functions, yki_pickle_callable(value));
}
