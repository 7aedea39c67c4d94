/* What `yoke ps` finds on the hosts of a job that no launcher of yoke's has started. */
#ifndef YKI_SIGNPOST_H
#define YKI_SIGNPOST_H

/*
 * Nothing outside such a job knows where its store is, and with what secret: both may be derived,
 * or drawn. Each rank keeps them, as the lines HOST, PORT and SECRET, in a file that has no name in
 * any folder and that its user alone can read, among the open files of the process. Returns its
 * descriptor, or -1 if the system has no such files.
 */
int yki_signpost_open(const char *host, int port, const char *secret);

#endif
