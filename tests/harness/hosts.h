/*
 * Several hosts on this machine: n1, n2, ... with the addresses 10.77.0.1, ... (tests/hosts/hosts
 * explains what they are). The hosts and everything that runs on them end with the test, even if it
 * is killed. Folders, such as yk_test_directory(), are shared between the hosts; /dev/shm is not.
 */
#ifndef YK_TEST_HOSTS_H
#define YK_TEST_HOSTS_H

#include "harness.h"

/* Makes hosts n1 to nCOUNT; skips the case, with the reason, where that is not permitted. */
void yk_test_hosts(int count);

/* The beginning of a shell command that runs the rest of it on a host: "... on FOLDER n1 ". Copy it
 * before the next call with another host. */
const char *yk_test_on(int host);
/* Takes the IPv4 addresses of all hosts away: their names then mean IPv6 addresses. */
void yk_test_only_ipv6(void);
/* The FOLDER for tests/hosts/hosts. */
const char *yk_test_hosts_folder(void);
/* "10.77.0.1" */
const char *yk_test_address(int host);

/* Starts sshd on all hosts; skips the case where there is none. The path of a program that is
 * called like ssh, from any host: PATH n2 COMMAND. What it starts has the variables YOKE_TEST_*. */
const char *yk_test_ssh(void);

/* Takes a host off the network, without its interface going down, and connects it again. */
void yk_test_cut(int host);
void yk_test_restore(int host);
/* Limits the rate at which a host sends: "1gbit"; "off" removes the limit. */
void yk_test_limit_rate(int host, const char *rate);
/* Bytes that a host has sent to others, headers included. */
uint64_t yk_test_bytes_sent(int host);
/* A power cut: all processes of the host are gone at once; its peers get no packet from it. */
void yk_test_kill_host(int host);

/*
 * yk_test_ranks over `hosts` hosts with `local` ranks each, host by host. statuses (waitpid's form,
 * hosts * local of them) NULL: asserts that every rank exits with 0.
 */
void yk_test_host_ranks(int hosts, int local, void (*body)(int rank, int world), int *statuses,
                        void (*after_start)(void));

/* Makes hosts and starts the current case as the ranks of a world, host by host. The pids are those
 * of processes that end as their rank does. yk_test_ranks does this where YK_TEST_HOSTS is a
 * number. */
void yk_test_spread_ranks(int hosts, int world, pid_t *pids);

#define YK_TEST_HOST_RANKS(name, hosts, local)                                                     \
    static void ranks_##name(int rank, int world);                                                 \
    YK_TEST(name)                                                                                  \
    {                                                                                              \
        yk_test_host_ranks(hosts, local, ranks_##name, NULL, NULL);                                \
    }                                                                                              \
    static void ranks_##name(int rank __attribute__((unused)), int world __attribute__((unused)))

/* The process, as seen from the test, that has this entry ("RANK=3") and the mark ("" for any) in
 * its environment and runs on a host (0: on any); 0 where there is none. With yk_test_host_ranks,
 * the mark is "". */
pid_t yk_test_find_process(int host, const char *mark, const char *entry);
/* The pid that a process has on its host: what error lines name. */
pid_t yk_test_pid_on_host(pid_t pid);

#endif
