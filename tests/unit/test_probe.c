/* The probe against libzmq's sockets of each kind, with and without keys, and against other
   servers; results of inquiries, and events of monitors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "client/inquiry.h"
#include "client/monitor.h"
#include "client/probe.h"
#include "common/keys.h"

enum { ENDPOINT_SIZE = 128, PATIENCE_MS = 20000 };

#define PATIENCE 20.0 /* seconds: peers may be slow on a busy machine */

static const struct {
    int type;
    const char *name;
} kinds[] = {{ZMQ_PULL, "PULL"},     {ZMQ_PUSH, "PUSH"}, {ZMQ_REP, "REP"},   {ZMQ_REQ, "REQ"},
             {ZMQ_ROUTER, "ROUTER"}, {ZMQ_PUB, "PUB"},   {ZMQ_XPUB, "XPUB"}, {ZMQ_SUB, "SUB"},
             {ZMQ_DEALER, "DEALER"}, {ZMQ_XSUB, "XSUB"}, {ZMQ_PAIR, "PAIR"}};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* A key pair for the peer, and the keys of a client for it. */
static struct key_pair peer_keys;
static struct key_client plain, with_keys, with_wrong_keys;

static int make_keys(void **state) {
    struct key_pair other;
    with_keys.on = with_wrong_keys.on = true;
    zmq_curve_keypair(peer_keys.public, peer_keys.secret);
    zmq_curve_keypair(other.public, other.secret);
    zmq_curve_keypair(with_keys.own.public, with_keys.own.secret);
    memcpy(with_keys.server, peer_keys.public, sizeof with_keys.server);
    with_wrong_keys.own = with_keys.own;
    memcpy(with_wrong_keys.server, other.public, sizeof with_wrong_keys.server);
    return 0;
}

struct peer {
    void *context, *socket;
    char endpoint[ENDPOINT_SIZE];
};

static void open_peer(struct peer *peer, int type, const char *at, bool keys) {
    const int one = 1, zero = 0;
    size_t size = sizeof peer->endpoint;
    peer->context = zmq_ctx_new();
    peer->socket = zmq_socket(peer->context, type);
    zmq_setsockopt(peer->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(peer->socket, ZMQ_IPV6, &one, sizeof one);
    if (keys) {
        zmq_setsockopt(peer->socket, ZMQ_CURVE_SERVER, &one, sizeof one);
        zmq_setsockopt(peer->socket, ZMQ_CURVE_SECRETKEY, peer_keys.secret, KEYS_TEXT);
    }
    assert_int_equal(zmq_bind(peer->socket, at), 0);
    zmq_getsockopt(peer->socket, ZMQ_LAST_ENDPOINT, peer->endpoint, &size);
}

static void close_peer(struct peer *peer) {
    zmq_close(peer->socket);
    zmq_ctx_term(peer->context);
}

static void test_each_kind(void **state) {
    for (int i = 0; i < KINDS; i++) {
        struct peer peer;
        struct probe probe;
        open_peer(&peer, kinds[i].type, "tcp://127.0.0.1:*", false);
        probe_ask(&probe, peer.endpoint, PATIENCE, -1);
        assert_int_equal(probe.answer, PROBE_PLAIN);
        assert_string_equal(probe.type, kinds[i].name);
        close_peer(&peer);
        open_peer(&peer, kinds[i].type, "tcp://127.0.0.1:*", true);
        probe_ask(&probe, peer.endpoint, PATIENCE, -1);
        assert_int_equal(probe.answer, PROBE_CURVE);
        assert_string_equal(probe.type, "");
        close_peer(&peer);
    }
}

/* Repeated, because the order of events is random. */
static void test_again_and_again(void **state) {
    struct peer plain_peer, curve_peer;
    struct probe probe;
    open_peer(&plain_peer, ZMQ_REP, "tcp://127.0.0.1:*", false);
    open_peer(&curve_peer, ZMQ_PULL, "tcp://127.0.0.1:*", true);
    for (int i = 0; i < 300; i++) {
        probe_ask(&probe, plain_peer.endpoint, PATIENCE, -1);
        assert_int_equal(probe.answer, PROBE_PLAIN);
        assert_string_equal(probe.type, "REP");
        probe_ask(&probe, curve_peer.endpoint, PATIENCE, -1);
        assert_int_equal(probe.answer, PROBE_CURVE);
    }
    close_peer(&plain_peer);
    close_peer(&curve_peer);
}

static void test_other_mechanism(void **state) {
    const int one = 1;
    struct peer peer;
    struct probe probe;
    open_peer(&peer, ZMQ_REP, "ipc://@runnel-test-unused", false);
    zmq_setsockopt(peer.socket, ZMQ_PLAIN_SERVER, &one, sizeof one);
    zmq_bind(peer.socket, "tcp://127.0.0.1:*");
    size_t size = sizeof peer.endpoint;
    zmq_getsockopt(peer.socket, ZMQ_LAST_ENDPOINT, peer.endpoint, &size);
    probe_ask(&probe, peer.endpoint, PATIENCE, -1);
    assert_int_equal(probe.answer, PROBE_OTHER);
    close_peer(&peer);
}

static void test_each_transport(void **state) {
    char path[ENDPOINT_SIZE], abstract[ENDPOINT_SIZE];
    snprintf(path, sizeof path, "ipc:///tmp/runnel-probe-%d", (int)getpid());
    snprintf(abstract, sizeof abstract, "ipc://@runnel-probe-%d", (int)getpid());
    const char *const at[] = {path, abstract, "tcp://127.0.0.1:*", "tcp://[::1]:*"};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct peer peer;
        struct probe probe;
        open_peer(&peer, ZMQ_XPUB, at[i], false);
        probe_ask(&probe, i < 2 ? at[i] : peer.endpoint, PATIENCE, -1);
        assert_int_equal(probe.answer, PROBE_PLAIN);
        assert_string_equal(probe.type, "XPUB");
        const char *port = strrchr(peer.endpoint, ':');
        if (i == 2) {
            char named[ENDPOINT_SIZE];
            snprintf(named, sizeof named, "tcp://127.0.0.1:0;localhost%s", port);
            probe_ask(&probe, named, PATIENCE, -1);
            assert_string_equal(probe.type, "XPUB");
        }
        close_peer(&peer);
    }
}

/* ---- Servers without ZeroMQ ---- */

/* A server that accepts connections, sends something, reads on, and optionally closes them. */
struct server {
    int listener;
    const void *reply;
    size_t size;
    bool closes, once; /* `once`: only one connection */
    pthread_t thread;
    char endpoint[ENDPOINT_SIZE];
};

static void *serve(void *context) {
    struct server *server = context;
    int connections[16], count = 0, connection;
    bool more = true;
    char ignored[64];
    while (more && count < 16 && (connection = accept(server->listener, NULL, NULL)) >= 0) {
        more = !server->once;
        if (server->once)
            close(server->listener);
        connections[count++] = connection;
        if (server->size > 0 && write(connection, server->reply, server->size) < 0)
            break;
        if (server->closes) {
            shutdown(connection, SHUT_WR);
            while (read(connection, ignored, sizeof ignored) > 0)
                ;
            close(connections[--count]);
        }
    }
    while (count > 0)
        close(connections[--count]);
    return NULL;
}

static void open_server(struct server *server, const void *reply, size_t size, bool closes,
                        bool once) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_size = sizeof address;
    const int one = 1;
    *server = (struct server){.reply = reply, .size = size, .closes = closes, .once = once};
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server->listener, 16), 0);
    getsockname(server->listener, (struct sockaddr *)&address, &address_size);
    snprintf(server->endpoint, sizeof server->endpoint, "tcp://127.0.0.1:%d",
             ntohs(address.sin_port));
    pthread_create(&server->thread, NULL, serve, server);
}

static void close_server(struct server *server) {
    if (!server->once)
        shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    if (!server->once)
        close(server->listener);
}

static const unsigned char signature[10] = {0xff, [9] = 0x7f};

static void test_strangers(void **state) {
    static const unsigned char old[12] = {0xff, [9] = 0x7f, 1, 3};
    static const struct {
        const void *reply;
        size_t size;
        bool closes;
        double seconds;
        enum probe_answer answer;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 28, true, PATIENCE, PROBE_FOREIGN},
        {"SSH-2.0-OpenSSH_9.2\r\n", 21, false, PATIENCE, PROBE_FOREIGN},
        {"\xff\0\0\0\0\0\0\0\0\0", 10, false, PATIENCE, PROBE_FOREIGN},
        {old, sizeof old, false, PATIENCE, PROBE_FOREIGN},
        {signature, sizeof signature, false, 0.2, PROBE_SILENT},
        {signature, sizeof signature, true, PATIENCE, PROBE_CLOSES},
        {"", 0, true, PATIENCE, PROBE_CLOSES},
        {"", 0, false, 0.2, PROBE_SILENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server server;
        struct probe probe;
        open_server(&server, cases[i].reply, cases[i].size, cases[i].closes, false);
        probe_ask(&probe, server.endpoint, cases[i].seconds, -1);
        assert_int_equal(probe.answer, cases[i].answer);
        close_server(&server);
    }
}

/* A greeting without keys, followed by invalid commands. */
static void test_strange_commands(void **state) {
    unsigned char bytes[128] = {0xff, [9] = 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    static const struct {
        const char *reply;
        size_t size;
        const char *type;
    } cases[] = {
        {"\x04\x23\x05READY\x0bSocket-Type\0\0\0\x03REP\x02id\0\0\0\x03xyz", 37, "REP"},
        {"\x04\x23\x05READY\x02id\0\0\0\x03xyz\x0bSocket-Type\0\0\0\x03REP", 37, "REP"},
        {"\x04\x18\x05READY\x0bSocket-Type\0\0\0\xffREP", 27, ""},
        {"\x04\x18\x05READY\xffSocket-Type\0\0\0\x03REP", 27, ""},
        {"\x04\x06\x05READY", 8, ""},
        {"\x04\x0a\x05"
         "ERROR\x03"
         "400",
         12, ""},
        {"\x06\0\0\0\0\0\0\x02\0\x05READY", 15, ""},
        {"\x00\x05hello", 7, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server server;
        struct probe probe;
        memcpy(bytes + 64, cases[i].reply, cases[i].size);
        open_server(&server, bytes, 64 + cases[i].size, true, false);
        probe_ask(&probe, server.endpoint, PATIENCE, -1);
        assert_int_equal(probe.answer, PROBE_PLAIN);
        assert_string_equal(probe.type, cases[i].type);
        close_server(&server);
    }
}

static void test_nobody(void **state) {
    struct probe probe;
    char longest[4 * ENDPOINT_SIZE];
    snprintf(longest, sizeof longest, "ipc://%0*d", (int)sizeof longest - 7, 0);
    const char *const endpoints[] = {
        "tcp://127.0.0.1:1", "ipc:///nowhere/at/all", "ipc://@",      "ipc://",  longest,
        "inproc://x",        "tcp://127.0.0.1",       "tcp://[::1:1", "nonsense"};
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        probe_ask(&probe, endpoints[i], PATIENCE, -1);
        assert_int_equal(probe.answer, PROBE_NOBODY);
    }
}

static void test_stop(void **state) {
    struct server server;
    struct probe probe;
    int stop = eventfd(1, 0);
    open_server(&server, "", 0, false, false);
    probe_ask(&probe, server.endpoint, 1000 * PATIENCE, stop);
    assert_true(probe.answer == PROBE_SILENT || probe.answer == PROBE_NOBODY);
    close_server(&server);
    close(stop);
}

/* ---- Inquiries ---- */

static void inquire_at(struct finding *finding, int type, const struct key_client *keys, int peer,
                       bool peer_has_keys) {
    struct peer there;
    open_peer(&there, peer, "tcp://127.0.0.1:*", peer_has_keys);
    inquire(finding, there.endpoint, type, keys, -1);
    close_peer(&there);
}

static void test_findings(void **state) {
    static const struct {
        int type, peer;
        const struct key_client *keys;
        bool peer_has_keys;
        enum finding_kind kind;
        const char *why;
    } cases[] = {
        {ZMQ_SUB, ZMQ_XPUB, &plain, false, FINDING_NOTHING, ""},
        {ZMQ_REQ, ZMQ_REP, &plain, false, FINDING_NOTHING, ""},
        {ZMQ_PUSH, ZMQ_PULL, &plain, false, FINDING_NOTHING, ""},
        {ZMQ_DEALER, ZMQ_ROUTER, &plain, false, FINDING_NOTHING, ""},
        {ZMQ_SUB, ZMQ_REP, &plain, false, FINDING_REFUSED,
         "a REP socket, not runneld's statistics socket"},
        {ZMQ_REQ, ZMQ_PULL, &plain, false, FINDING_REFUSED,
         "a PULL socket, not runneld's control socket"},
        {ZMQ_PUSH, ZMQ_ROUTER, &plain, false, FINDING_REFUSED,
         "a ROUTER socket, not runneld's examples socket of kind pull: the daemon has "
         "examples.socket: router, use --socket router"},
        {ZMQ_PUSH, ZMQ_REP, &plain, false, FINDING_REFUSED, "of kind pull"},
        {ZMQ_DEALER, ZMQ_PULL, &plain, false, FINDING_REFUSED,
         "use --socket push, or set examples.socket: router"},
        {ZMQ_SUB, ZMQ_XPUB, &plain, true, FINDING_REFUSED, "requires keys"},
        {ZMQ_REQ, ZMQ_PULL, &plain, true, FINDING_REFUSED, "requires keys"},
        {ZMQ_SUB, ZMQ_XPUB, &with_keys, false, FINDING_REFUSED, "has no keys"},
        {ZMQ_SUB, ZMQ_XPUB, &with_keys, true, FINDING_NOTHING, ""},
        {ZMQ_REQ, ZMQ_REP, &with_keys, true, FINDING_NOTHING, ""},
        {ZMQ_PUSH, ZMQ_PULL, &with_keys, true, FINDING_NOTHING, ""},
        {ZMQ_DEALER, ZMQ_ROUTER, &with_keys, true, FINDING_NOTHING, ""},
        {ZMQ_REQ, ZMQ_XPUB, &with_keys, true, FINDING_REFUSED,
         "a PUB socket, not runneld's control"},
        {ZMQ_SUB, ZMQ_PULL, &with_keys, true, FINDING_REFUSED, "a PULL socket"},
        {ZMQ_PUSH, ZMQ_ROUTER, &with_keys, true, FINDING_REFUSED, "REP or ROUTER socket"},
        {ZMQ_REQ, ZMQ_REP, &with_wrong_keys, true, FINDING_HINDERED, "is not its public key"},
        {ZMQ_SUB, ZMQ_XPUB, &with_wrong_keys, true, FINDING_HINDERED, "is not its public key"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct finding finding;
        inquire_at(&finding, cases[i].type, cases[i].keys, cases[i].peer, cases[i].peer_has_keys);
        assert_int_equal(finding.kind, cases[i].kind);
        if (!strstr(finding.why, cases[i].why))
            fail_msg("case %zu: \"%s\" has not \"%s\"", i, finding.why, cases[i].why);
    }
}

/* ---- The monitor ---- */

struct watched {
    void *context, *socket;
    struct monitor *monitor;
    int opened, ready, closed;
};

static void open_watched(struct watched *watched, const char *endpoint, int type,
                         const struct key_client *keys) {
    const int zero = 0, interval = 10;
    *watched = (struct watched){.context = zmq_ctx_new()};
    watched->socket = zmq_socket(watched->context, type);
    zmq_setsockopt(watched->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(watched->socket, ZMQ_RECONNECT_IVL, &interval, sizeof interval);
    keys_apply(keys, watched->socket);
    assert_int_equal(monitor_open(&watched->monitor, endpoint, type, false, keys, NULL), 0);
    assert_int_equal(monitor_attach(watched->monitor, watched->context, watched->socket), 0);
    assert_int_equal(zmq_connect(watched->socket, endpoint), 0);
}

static void close_watched(struct watched *watched) {
    monitor_close(&watched->monitor);
    zmq_close(watched->socket);
    zmq_ctx_term(watched->context);
}

/* Wait for an event of that kind, skipping others. */
static void await(struct watched *watched, enum monitor_kind kind) {
    for (int turn = 0; turn < PATIENCE_MS / 10; turn++) {
        struct monitor_event event;
        while (monitor_next(watched->monitor, &event)) {
            watched->opened += event.kind == MONITOR_OPENED;
            watched->ready += event.kind == MONITOR_READY;
            watched->closed += event.kind == MONITOR_CLOSED;
            if (event.kind == kind)
                return;
        }
        zmq_pollitem_t items[MONITOR_ITEMS];
        monitor_items(watched->monitor, items);
        zmq_poll(items, MONITOR_ITEMS, 10);
    }
    fail_msg("event %d has not come", kind);
}

/* The order of libzmq's events is random, and must not affect the result. */
static void test_reasons(void **state) {
    static const struct {
        int type, peer;
        const struct key_client *keys;
        bool peer_has_keys;
        const char *why;
    } cases[] = {
        {ZMQ_REQ, ZMQ_PULL, &plain, false, "not runneld's control socket"},
        {ZMQ_SUB, ZMQ_REP, &plain, false, "not runneld's statistics socket"},
        {ZMQ_PUSH, ZMQ_ROUTER, &plain, false, "use --socket router"},
        {ZMQ_DEALER, ZMQ_PULL, &plain, false, "use --socket push, or set examples.socket: router"},
        {ZMQ_REQ, ZMQ_REP, &plain, true, "requires keys"},
        {ZMQ_REQ, ZMQ_REP, &with_keys, false, "has no keys"},
        {ZMQ_REQ, ZMQ_XPUB, &with_keys, true, "not runneld's control socket"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int again = 0; again < 20; again++) {
            struct peer peer;
            struct watched watched;
            open_peer(&peer, cases[i].peer, "tcp://127.0.0.1:*", cases[i].peer_has_keys);
            open_watched(&watched, peer.endpoint, cases[i].type, cases[i].keys);
            await(&watched, MONITOR_REFUSED);
            if (!strstr(monitor_reason(watched.monitor), cases[i].why))
                fail_msg("case %zu: \"%s\"", i, monitor_reason(watched.monitor));
            assert_int_equal(watched.ready, 0);
            close_watched(&watched);
            close_peer(&peer);
        }
}

static void test_wrong_key_then_right(void **state) {
    struct peer peer;
    struct watched watched;
    char endpoint[ENDPOINT_SIZE];
    open_peer(&peer, ZMQ_XPUB, "tcp://127.0.0.1:*", true);
    strcpy(endpoint, peer.endpoint);
    open_watched(&watched, endpoint, ZMQ_SUB, &with_wrong_keys);
    await(&watched, MONITOR_HINDERED);
    assert_non_null(strstr(monitor_reason(watched.monitor), "is not its public key"));
    close_watched(&watched);
    open_watched(&watched, endpoint, ZMQ_SUB, &with_keys);
    await(&watched, MONITOR_READY);
    assert_null(monitor_reason(watched.monitor));
    close_peer(&peer);
    await(&watched, MONITOR_CLOSED);
    close_watched(&watched);
}

/* The monitor connects again after libzmq has stopped, once the right peer is there. */
static void test_another_peer(void **state) {
    unsigned char reply[128] = {0xff, [9] = 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    static const char ready[] = "\x04\x18\x05READY\x0bSocket-Type\0\0\0\x03REP";
    struct server server;
    struct watched watched;
    struct peer peer;
    memcpy(reply + 64, ready, sizeof ready - 1);
    open_server(&server, reply, 64 + sizeof ready - 1, true, true);
    open_watched(&watched, server.endpoint, ZMQ_SUB, &plain);
    await(&watched, MONITOR_CLOSED);
    close_server(&server);
    open_peer(&peer, ZMQ_XPUB, server.endpoint, false);
    await(&watched, MONITOR_READY);
    assert_null(monitor_reason(watched.monitor));
    close_watched(&watched);
    close_peer(&peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind),
        cmocka_unit_test(test_again_and_again),
        cmocka_unit_test(test_other_mechanism),
        cmocka_unit_test(test_each_transport),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_strange_commands),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_findings),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_wrong_key_then_right),
        cmocka_unit_test(test_another_peer),
    };
    return cmocka_run_group_tests(tests, make_keys, NULL);
}
