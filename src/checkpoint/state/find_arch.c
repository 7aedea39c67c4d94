/*
 * Which network a file of weights is of, by the names and shapes of its tensors; see
 * yk_tensor_file_find_arch. A network's graph is cheap as long as no model is made of it.
 */
#include <stdlib.h>
#include <string.h>

#include <yoke/model_info.h>
#include <yoke/networks.h>

#include "base/memory.h"
#include "checkpoint/state/match.h"
#include "graph/graph.h"

/* Sides of images that fit all networks that take images of any size, and the others. */
static const int64_t sides[] = {224, 32};

static bool has_shape(const yk_tensor_file *file, const yk_value *value)
{
    yki_file_tensor stored;
    int64_t index = yki_tensor_file_find(file, value->name);
    return index >= 0 && yki_tensor_file_stored(file, (size_t)index, &stored) == YK_OK &&
           yki_has_shape(&stored, value->ndim, value->dims);
}

static bool fits(const yk_tensor_file *file, const yk_graph *graph)
{
    size_t tensors = 0;
    for (size_t i = 0; i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        if (!yki_value_is_saved(value) ||
            (value->ndim == 0 && yki_lacks_batch_count(file, value->name)))
            continue;
        if (!has_shape(file, value))
            return false;
        tensors++;
    }
    return tensors == yk_tensor_file_count(file);
}

/* Rows of the file's tensor that is the network's last weight or bias; 0 where there is none. */
static int64_t count_classes(const yk_tensor_file *file, const yk_graph *graph)
{
    yki_file_tensor stored;
    const yk_value *last = NULL;
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->kind == YKI_PARAMETER)
            last = graph->values[i];
    int64_t index = last ? yki_tensor_file_find(file, last->name) : -1;
    bool known = index >= 0 && yki_tensor_file_stored(file, (size_t)index, &stored) == YK_OK;
    return known && stored.ndim == last->ndim ? stored.dims[0] : 0;
}

static yk_graph *build(yk_arch_fn arch, int64_t side, int64_t classes)
{
    yk_graph *graph = yk_graph_create();
    arch(yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side}), classes);
    return graph;
}

/* The classes that a network would have with the file's last layer; 0 where it has none. */
static int64_t classes_of(const yk_tensor_file *file, yk_arch_fn arch, int64_t side)
{
    yk_graph *graph = build(arch, side, 1);
    int64_t classes = graph ? count_classes(file, graph) : 0;
    yk_graph_destroy(graph);
    return classes;
}

static bool is_of(const yk_tensor_file *file, yk_arch_fn arch, int64_t side, int64_t *classes)
{
    *classes = classes_of(file, arch, side);
    if (*classes < 1)
        return false;
    yk_graph *graph = build(arch, side, *classes);
    bool found = graph && fits(file, graph);
    yk_graph_destroy(graph);
    return found;
}

yk_status yk_tensor_file_find_arch(yk_tensor_file *file, const char **arch, int64_t *classes)
{
    int64_t found;
    const char *name;
    YKI_NOT_NULL(arch);
    *arch = NULL;
    YKI_NOT_NULL(file);
    YK_TRY(yki_tensor_file_check(file));
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
        for (size_t i = 0; (name = yk_arch_name(i)); i++)
            if (is_of(file, yk_arch_find(name), sides[s], &found)) {
                *arch = name;
                if (classes)
                    *classes = found;
                return YK_OK;
            }
    return yki_error(YK_ERROR_NOT_FOUND, "%s: its tensors are not those of any network of yoke",
                     yki_tensor_file_path(file));
}

yk_status yk_tensor_file_count_classes(yk_tensor_file *file, const char *arch, int64_t *classes)
{
    YKI_NOT_NULL(classes);
    *classes = 0;
    YKI_NOT_NULL(file);
    YKI_NOT_NULL(arch);
    yk_arch_fn network = yk_arch_find(arch);
    if (!network)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "unknown network \"%s\"", arch);
    YK_TRY(yki_tensor_file_check(file));
    *classes = classes_of(file, network, sides[0]);
    if (*classes < 1)
        return yki_error(YK_ERROR_NOT_FOUND, "%s: lacks the last layer of %s",
                         yki_tensor_file_path(file), arch);
    return YK_OK;
}

yk_status yk_tensor_file_check_graph(yk_tensor_file *file, const yk_graph *graph)
{
    const yk_load_options everything = YK_LOAD_OPTIONS_INIT;
    size_t count = 0;
    YKI_NOT_NULL(file);
    YKI_NOT_NULL(graph);
    if (graph->status != YK_OK)
        return yki_error(graph->status, "%s", graph->error);
    YK_TRY(yki_tensor_file_check(file));
    yki_wanted_tensor *wanted = yki_calloc(graph->value_count, sizeof *wanted);
    yki_file_tensor *found = yki_calloc(graph->value_count, sizeof *found);
    for (size_t i = 0; wanted && i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        if (!yki_value_is_saved(value))
            continue;
        wanted[count].name = value->name;
        wanted[count].ndim = value->ndim;
        memcpy(wanted[count++].dims, value->dims, sizeof value->dims);
    }
    yk_status status =
        wanted && found
            ? yki_match_tensors(found, file, wanted, count, &everything, NULL)
            : yki_error_memory(graph->value_count * sizeof *wanted, "a list of tensors");
    free(wanted);
    free(found);
    return status;
}
