/* Sizes of files as people read them. */
#ifndef YOKE_CLI_SIZE_H
#define YOKE_CLI_SIZE_H

enum { CLI_SIZE_TEXT = 32 };
/* "3.2 MB", in powers of ten. */
const char *cli_size_text(char text[CLI_SIZE_TEXT], double bytes);

#endif
