/* Loading parts of a file, and files that fit only in part; see yk_model_load_with. */
#include "base/options.h"
#include "checkpoint/state/state_dict.h"

yk_status yk_model_load_with(yk_model *model, const char *path, const yk_load_options *options,
                             yk_load_report *report)
{
    yk_tensor_file *file;
    yk_load_options chosen;
    yki_state_dict dict;
    if (report)
        *report = (yk_load_report){.loaded = 0};
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(path);
    YK_TRY(YKI_READ_OPTIONS(&chosen, options, yk_load_options, YK_LOAD_OPTIONS_INIT));
    YK_TRY(yk_tensor_file_open(&file, path));
    yk_status status = yki_state_dict_read_some(&dict, file, model, &chosen, report);
    if (status == YK_OK) {
        status = yki_state_dict_apply(&dict, model);
        yki_state_dict_fini(&dict);
    }
    yk_tensor_file_close(file);
    return status;
}
