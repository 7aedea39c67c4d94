/*
 * The settings that a program keeps in its checkpoints: in memory lines "NAME=VALUE\n", in the file
 * the dict "program" of texts.
 */
#ifndef YKI_PROGRAM_STATE_H
#define YKI_PROGRAM_STATE_H

#include <yoke/checkpoint.h>

#include "checkpoint/tensor_file/pth.h"

/* Whether program (size bytes) consists of such lines and ends with a zero. */
yk_status yki_program_state_check(const char *program, size_t size);
/* Appends the dict. */
void yki_program_state_write(yki_pickle_writer *pickle, const char *program);
/*
 * Reads the dict "program" of the dict `state`; "" where it has none. Files of earlier versions
 * have the text "options" instead, of lines "--NAME=VALUE" or "--NAME", which become
 * "NAME=VALUE" and "NAME=true".
 */
yk_status yki_program_state_read(const yki_pth *pth, const yki_pickle_value *state, char *program,
                                 size_t size);

#endif
