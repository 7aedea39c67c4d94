/* Durations as people read them. */
#ifndef YOKE_CLI_DURATION_H
#define YOKE_CLI_DURATION_H

/* "12 s", "3:05 min" or "2:03 h"; "-" for NaN. */
enum { CLI_DURATION_TEXT = 32 };
const char *cli_duration_text(char text[CLI_DURATION_TEXT], double seconds);

#endif
