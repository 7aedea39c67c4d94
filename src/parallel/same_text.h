/* Checks that what has to be the same on all ranks is the same, by a text that describes it. */
#ifndef YKI_SAME_TEXT_H
#define YKI_SAME_TEXT_H

#include <yoke/group.h>

/*
 * Collective. Compares texts of lines over the ranks. If they differ, every rank returns
 * YK_ERROR_MISMATCH with the same error, which shows the first line that differs on both ranks:
 * "SUBJECTS differ: rank 0 has ..., rank 1 has ...".
 */
yk_status yki_compare_texts(yk_group *group, const char *subjects, const char *own);

#endif
