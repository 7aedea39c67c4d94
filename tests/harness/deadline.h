/*
 * What a test that hangs is doing: shortly before ctest kills it, each of its processes writes to
 * stderr where its threads are, in the kernel and, for one thread, in the program.
 */
#ifndef YK_TEST_DEADLINE_H
#define YK_TEST_DEADLINE_H

/* Does nothing unless YK_TEST_DEADLINE holds the test's seconds. Later programs inherit it. */
void yk_test_watch_deadline(void);

#endif
