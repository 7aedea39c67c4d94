/*
 * What the targets share. A target is a fuzz_NAME.c with LLVMFuzzerTestOneInput: libFuzzer's
 * contract, https://llvm.org/docs/LibFuzzer.html. `make fuzz` runs it under libFuzzer; the ordinary
 * tests link it with replay.c, which feeds it the corpus that is kept.
 *
 * Every input must be read or refused with one line. The memory that a target holds is counted, too
 * (but for ThreadSanitizer): see fuzz_begin.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include <yoke/status.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Between the two at most FUZZ_FACTOR bytes an input byte and FUZZ_SLACK more may be held. */
enum { FUZZ_FACTOR = 160, FUZZ_SLACK = 4 << 20 };
void fuzz_begin(size_t size);
void fuzz_end(void);

/* The input as a file; the path stays the same from call to call. */
const char *fuzz_file(const uint8_t *data, size_t size);
/* A folder, made once, in which NAME is that file. */
const char *fuzz_folder(const char *name);

/* A refusal must have said why, in one line. */
void fuzz_check(yk_status status);

#endif
