/*
 * A small disk, so that tests can fill it: a tmpfs that only the test and the processes that it
 * starts can see, and that vanishes with them.
 */
#ifndef YK_TEST_DISK_H
#define YK_TEST_DISK_H

#include <stddef.h>

/* Mounts an empty disk of so many bytes, once a case; skips the case, with the reason, where that
 * is not permitted. The path of its folder. Call it before the case starts a thread. */
const char *yk_test_disk(size_t bytes);
/* Takes all the space that is left on it, or all but so many bytes; gives it back. */
void yk_test_fill_disk(void);
void yk_test_fill_disk_except(size_t room);
void yk_test_free_disk(void);

/* From here on, no file that the process writes grows larger than this one and so many bytes; NULL:
 * as large as may be. */
void yk_test_limit_files(const char *path, size_t room);

#endif
