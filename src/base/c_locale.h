/*
 * Numbers in files and in the environment have a decimal point, whatever locale the program that we
 * are part of has set for itself: between begin and end the calling thread prints and reads them
 * so.
 */
#ifndef YKI_C_LOCALE_H
#define YKI_C_LOCALE_H

void *yki_c_locale_begin(void);
/* Takes what begin returned. */
void yki_c_locale_end(void *before);

#endif
