/* See match.h. */
#include "checkpoint/state/match.h"

#include <fnmatch.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/tensor_file/wrappers.h"
#include "tensor/tensor.h"

enum { LISTED = 3 /* names of a kind in an error line; the others are counted */ };

/* ---- what does not fit ---------------------------------------------------------------------- */

/* The names of one kind of trouble, as "missing a, b, c and 4 more". */
typedef struct name_list {
    char names[160];
    int count;
} name_list;

/* All that does not fit, and what is loaded all the same. */
typedef struct findings {
    name_list missing, unexpected, shapes, refused_shapes;
    size_t loaded;
} findings;

static void note_trouble(name_list *trouble, const char *text)
{
    size_t at = strlen(trouble->names);
    if (trouble->count < LISTED)
        snprintf(trouble->names + at, sizeof trouble->names - at, "%s%s",
                 trouble->count ? ", " : "", text);
    trouble->count++;
}

static void describe_trouble(char *line, size_t size, const char *kind, const name_list *trouble)
{
    size_t at = strlen(line);
    if (trouble->count == 0)
        return;
    at += (size_t)snprintf(line + at, size - at, "%s%s %s", at ? "; " : "", kind, trouble->names);
    if (trouble->count > LISTED && at < size)
        snprintf(line + at, size - at, " and %d more", trouble->count - LISTED);
}

static void note_shapes(name_list *trouble, const yki_wanted_tensor *wanted,
                        const yki_file_tensor *found)
{
    char text[200], here[64], there[64];
    yki_dims_text(there, sizeof there, found->ndim, found->dims);
    yki_dims_text(here, sizeof here, wanted->ndim, wanted->dims);
    snprintf(text, sizeof text, "%.40s: %s in the file but %s in the model", wanted->name, there,
             here);
    note_trouble(trouble, text);
}

/* ---- matching ------------------------------------------------------------------------------- */

bool yki_lacks_batch_count(const yk_tensor_file *file, const char *name)
{
    static const char counter[] = "num_batches_tracked";
    char mean[YK_FILE_NAME];
    if (!yki_ends_in(name, counter))
        return false;
    snprintf(mean, sizeof mean, "%.*srunning_mean", (int)(strlen(name) - strlen(counter)), name);
    return yki_tensor_file_find(file, mean) >= 0 && yki_tensor_file_find(file, name) < 0;
}

bool yki_has_shape(const yki_file_tensor *stored, int ndim, const int64_t *dims)
{
    return stored->ndim == ndim && memcmp(stored->dims, dims, (size_t)ndim * sizeof *dims) == 0;
}

void yki_add_row(yki_file_tensor *stored, int ndim, const int64_t *dims)
{
    if (stored->ndim != 3 || ndim != 4 || dims[2] != 1)
        return;
    stored->dims[3] = stored->dims[2];
    stored->strides[3] = stored->strides[2];
    stored->dims[2] = 1;
    stored->strides[2] = stored->strides[1];
    stored->ndim = 4;
}

/* The wanted tensors, and where they are looked for. */
typedef struct search {
    const yk_tensor_file *file;
    const yk_load_options *options;
    const yki_wanted_tensor *wanted;
    size_t count;
    size_t wrapper; /* bytes that all wanted names begin with; the file's come off likewise */
    findings all;
} search;

static bool wanted_name(const void *wanted, size_t index, const char **name, size_t *length)
{
    *name = ((const yki_wanted_tensor *)wanted)[index].name;
    *length = strlen(*name);
    return true;
}

static bool is_wanted(const search *at, const char *name, size_t length)
{
    for (size_t i = 0; i < at->count; i++)
        if (yki_same_unwrapped(name, length, at->wanted[i].name + at->wrapper))
            return true;
    return false;
}

static void note_unexpected(search *at)
{
    size_t wrapper = yki_tensor_file_wrapper(at->file), length;
    for (size_t i = 0; i < yk_tensor_file_count(at->file); i++) {
        const char *name = yki_tensor_file_name(at->file, i, &length);
        char label[YKI_TENSOR_LABEL];
        if (name && yki_is_n_averaged(name, length))
            continue;
        if (name && is_wanted(at, name + wrapper, length - wrapper))
            continue;
        note_trouble(&at->all.unexpected, yki_tensor_file_label(at->file, i, label));
    }
}

/* What is loaded for a tensor that the file lacks: 0 for a number of batches, else nothing. */
static yki_file_tensor without(search *at, const yki_wanted_tensor *wanted)
{
    if (wanted->ndim == 0 && yki_lacks_batch_count(at->file, wanted->name + at->wrapper))
        return (yki_file_tensor){.dtype = yki_file_tensor_dtype_of(YK_I64),
                                 .storage = YKI_NOT_STORED};
    note_trouble(&at->all.missing, wanted->name);
    return (yki_file_tensor){.dtype = NULL};
}

static yk_status find_tensor(search *at, yki_file_tensor *found, const yki_wanted_tensor *wanted)
{
    yki_file_tensor stored;
    const char *reshaped = at->options->allow_reshaped;
    int64_t index = yki_tensor_file_find(at->file, wanted->name + at->wrapper);
    if (index < 0) {
        *found = without(at, wanted);
        return YK_OK;
    }
    YK_TRY(yki_tensor_file_stored(at->file, (size_t)index, &stored));
    yki_file_tensor fitting = stored;
    yki_add_row(&fitting, wanted->ndim, wanted->dims);
    if (yki_has_shape(&fitting, wanted->ndim, wanted->dims)) {
        *found = fitting;
        at->all.loaded++;
        return YK_OK;
    }
    note_shapes(&at->all.shapes, wanted, &stored);
    if (!reshaped || fnmatch(reshaped, wanted->name, 0) != 0)
        note_shapes(&at->all.refused_shapes, wanted, &stored);
    return YK_OK;
}

static void write_report(yk_load_report *report, const findings *all)
{
    *report = (yk_load_report){.loaded = all->loaded,
                               .missing = (size_t)all->missing.count,
                               .unexpected = (size_t)all->unexpected.count,
                               .reshaped = (size_t)all->shapes.count};
    describe_trouble(report->text, sizeof report->text, "missing", &all->missing);
    describe_trouble(report->text, sizeof report->text, "unexpected", &all->unexpected);
    describe_trouble(report->text, sizeof report->text, "differently shaped", &all->shapes);
}

/* The error for what the options do not allow, and where nothing would be loaded. */
static yk_status judge(const findings *all, const yk_tensor_file *file,
                       const yk_load_options *options, size_t wanted)
{
    char line[YKI_ERROR_LINE] = "";
    bool nothing = all->loaded == 0;
    if (!options->allow_missing || nothing)
        describe_trouble(line, sizeof line, "missing", &all->missing);
    if (!options->allow_unexpected || nothing)
        describe_trouble(line, sizeof line, "unexpected", &all->unexpected);
    describe_trouble(line, sizeof line, "differently shaped",
                     nothing ? &all->shapes : &all->refused_shapes);
    if (line[0] || (nothing && wanted > 0))
        return yki_error(YK_ERROR_MISMATCH, "%s: does not fit the model: %s",
                         yki_tensor_file_path(file),
                         line[0] ? line : "no tensor has a name that was asked for");
    return YK_OK;
}

yk_status yki_match_tensors(yki_file_tensor *found, const yk_tensor_file *file,
                            const yki_wanted_tensor *wanted, size_t count,
                            const yk_load_options *options, yk_load_report *report)
{
    search at = {.file = file,
                 .options = options,
                 .wanted = wanted,
                 .count = count,
                 .wrapper = yki_common_wrapper(wanted_name, wanted, count)};
    for (size_t i = 0; i < count; i++)
        if (!options->include || fnmatch(options->include, wanted[i].name, 0) == 0)
            YK_TRY(find_tensor(&at, &found[i], &wanted[i]));
    note_unexpected(&at);
    if (report)
        write_report(report, &at.all);
    return judge(&at.all, file, options, count);
}
