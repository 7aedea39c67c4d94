/* Python with PyTorch as the judge of what a test has written. */
#ifndef YK_PYTORCH_H
#define YK_PYTORCH_H

/*
 * Runs a script of this folder with its arguments in a process of its own (with_pytorch.py), and
 * shows what it prints. The case is skipped when the script exits with 77 (no PyTorch:
 * python3-torch), and fails unless it exits with 0. YOKE_PYTHON names another interpreter than
 * /usr/bin/python3.
 */
void pytorch_judges(const char *script, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
