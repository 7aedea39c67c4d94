/*
 * Numbers in files and in the environment have a decimal point, whatever locale the program that we
 * are part of has set for itself: between begin and end the calling thread prints and reads them
 * so.
 */
#ifndef YKI_POINT_H
#define YKI_POINT_H

void *yki_point_begin(void);
/* Takes what begin returned. */
void yki_point_end(void *before);

#endif
