/* See dcp.h. */
#define _GNU_SOURCE
#include "io/dcp.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), size = strlen(ending);
    return length >= size && strcmp(path + length - size, ending) == 0;
}

/* Whether it is a folder that has a .metadata. */
static bool is_checkpoint_folder(const char *path)
{
    char inside[PATH_MAX];
    int length = snprintf(inside, sizeof inside, "%s/.metadata", path);
    return length < PATH_MAX && yki_is_folder(path) && access(inside, F_OK) == 0;
}

yk_status yki_refuse_dcp(const char *path)
{
    bool folder = is_checkpoint_folder(path);
    if (!folder && !ends_in(path, ".distcp") && !ends_in(path, "/.metadata"))
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "%s: is %sa distributed checkpoint of PyTorch: convert it with python -m "
                     "torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE.pth",
                     path, folder ? "" : "a file of ");
}
