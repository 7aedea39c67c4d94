/* Descriptions of networks in memory of their own. */
#ifndef YKI_MODEL_INFO_H
#define YKI_MODEL_INFO_H

#include <yoke/model_info.h>

#include "base/error.h"

/* A copy with copies of all texts and numbers; *copy is NULL on failure. */
yk_status yki_model_info_copy(yk_model_info **copy, const yk_model_info *info);
/* Accepts NULL. */
void yki_model_info_destroy(yk_model_info *info);

#endif
