/*
 * Passes the descriptor of a segment to the peers over Unix sockets. Opening /proc/PID/fd/N instead
 * fails for processes that are not dumpable, and in a new pid namespace that still shows the old
 * /proc.
 *
 * Each rank listens on a socket, its mailbox, which has a random name in the abstract namespace, so
 * that no file remains. Posting a letter means connecting, sending one message with the descriptor
 * and closing; the sender does not wait for the receiver. A rank that knows from an exchange that
 * its peers have posted therefore never waits for them.
 *
 * Both sides check user and pid of the other process (SO_PEERCRED), so that another user can
 * neither send a letter nor receive one by taking the name of a rank that has died.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <yoke/store.h>

#include "comm/shm/shm.h"

enum { BACKLOG = 4096, SEND_S = 10 };

static const char NAME_START[] = "yoke-";

/* The message that accompanies the descriptor. */
typedef struct letter {
    int32_t rank;
    uint32_t round;
} letter;

_Static_assert(SHM_MAILBOX_NAME >= sizeof NAME_START - 1 + YK_STORE_SECRET_SIZE,
               "the name of a mailbox must fit");

/* Room for one descriptor, aligned like the kernel's header for it. */
typedef union control_data {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} control_data;

static socklen_t make_address(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strnlen(name, SHM_MAILBOX_NAME);
    memcpy(address->sun_path + 1, name, length); /* after a zero: the abstract namespace */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

yk_status yki_shm_mailbox_open(shm_mailbox *mailbox)
{
    struct sockaddr_un address;
    char secret[YK_STORE_SECRET_SIZE];
    *mailbox = (shm_mailbox){.fd = -1};
    YK_TRY(yk_store_secret(secret, sizeof secret));
    snprintf(mailbox->name, sizeof mailbox->name, "%s%s", NAME_START, secret);
    socklen_t size = make_address(&address, mailbox->name);
    mailbox->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (mailbox->fd >= 0 && bind(mailbox->fd, (struct sockaddr *)&address, size) == 0 &&
        listen(mailbox->fd, BACKLOG) == 0)
        return YK_OK;
    yk_status status =
        yki_error(YK_ERROR_IO, "cannot create a Unix socket to share memory: %s", strerror(errno));
    yki_shm_mailbox_close(mailbox);
    return status;
}

void yki_shm_mailbox_close(shm_mailbox *mailbox)
{
    if (mailbox->fd >= 0)
        close(mailbox->fd);
    mailbox->fd = -1;
}

static bool is_rank(const shm_backend *shm, int fd, int rank)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return rank >= 0 && rank < shm->world &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid() &&
           peer.pid == shm->site->members[rank].pid;
}

/* 0 or an errno. */
static int send_letter(int fd, const letter *text, int file)
{
    control_data control = {.bytes = {0}};
    struct iovec part = {(void *)text, sizeof *text};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
    memcpy(CMSG_DATA(header), &file, sizeof file);
    ssize_t sent;
    while ((sent = sendmsg(fd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return sent < 0 ? errno : 0;
}

static int post(const shm_backend *shm, int rank, const char *name, int file)
{
    struct sockaddr_un address;
    socklen_t size = make_address(&address, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    /* SO_SNDTIMEO also limits connect(). */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){.tv_sec = SEND_S},
               sizeof(struct timeval));
    int error = connect(fd, (struct sockaddr *)&address, size) ? errno : 0;
    if (!error && !is_rank(shm, fd, rank))
        error = EPERM;
    if (!error)
        error = send_letter(fd, &(letter){shm->rank, shm->round}, file);
    close(fd);
    return error;
}

yk_status yki_shm_post(const shm_backend *shm, int rank, const char *name, int file)
{
    int error = post(shm, rank, name, file);
    if (!error)
        return YK_OK;
    return yki_error(YK_ERROR_IO, "cannot pass shared memory to rank %d (pid %d): %s%s",
                     shm->site->members[rank].job_rank, shm->site->members[rank].pid,
                     strerror(error),
                     error == ECONNREFUSED ? "; ranks must be in one network namespace" : "");
}

/* The first descriptor of a message, or -1. A stranger's may have another one, for which the
 * alignment of control_data leaves room. */
static int take_descriptor(struct msghdr *message)
{
    int file = -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return -1;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof file;
    for (size_t i = count; i-- > 0;) {
        memcpy(&file, CMSG_DATA(header) + i * sizeof file, sizeof file);
        if (i > 0)
            close(file);
    }
    return file;
}

/* Keeps the descriptor of a valid letter; drops anything else. */
static yk_status read_letter(shm_backend *shm, int fd)
{
    control_data control;
    letter text;
    struct iovec part = {&text, sizeof text};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int file = got >= 0 ? take_descriptor(&message) : -1;
    if (got != sizeof text || text.round != shm->round || !is_rank(shm, fd, text.rank)) {
        if (file >= 0)
            close(file);
        return YK_OK;
    }
    if (file < 0)
        return yki_error(YK_ERROR_IO, "cannot receive the shared memory of rank %d: %s",
                         shm->site->members[text.rank].job_rank,
                         strerror(message.msg_flags & MSG_CTRUNC ? EMFILE : EBADMSG));
    if (shm->letters[text.rank] >= 0)
        close(shm->letters[text.rank]);
    shm->letters[text.rank] = file;
    return YK_OK;
}

yk_status yki_shm_take_letters(shm_backend *shm)
{
    for (;;) {
        int fd = accept4(shm->mailbox.fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0 && errno == EAGAIN)
            return YK_OK;
        if (fd < 0)
            return yki_error(YK_ERROR_IO, "cannot receive shared memory: %s", strerror(errno));
        yk_status status = read_letter(shm, fd);
        close(fd);
        YK_TRY(status);
    }
}

int yki_shm_letter(shm_backend *shm, int rank)
{
    int file = shm->letters[rank];
    shm->letters[rank] = -1;
    return file;
}

void yki_shm_drop_letters(shm_backend *shm)
{
    for (int r = 0; shm->letters && r < shm->world; r++) {
        int file = yki_shm_letter(shm, r);
        if (file >= 0)
            close(file);
    }
}
