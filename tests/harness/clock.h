/*
 * A clock for deadlines and upper bounds: seconds in which this machine ran. Where all of its
 * processes stand still for a while, as in a virtual machine that is paused, that time does not
 * count, so that no test fails because nobody could work. Lower bounds are for yki_now(), which
 * counts such time: what is tested counts it, too.
 */
#ifndef YK_TEST_CLOCK_H
#define YK_TEST_CLOCK_H

double yk_test_now(void);

#endif
