/* The page of `yoke report`. */
#ifndef YOKE_CLI_PAGE_H
#define YOKE_CLI_PAGE_H

#include "report/mistakes.h"
#include "report/run.h"

/* page.css and page.js, which the build turns into constants. */
extern const char cli_page_css[], cli_page_js[];

/* Writes the whole page; mistakes has one element for each run. False when memory runs out. */
bool cli_page_write(FILE *file, const cli_run *runs, const cli_mistakes *mistakes, int count);

#endif
