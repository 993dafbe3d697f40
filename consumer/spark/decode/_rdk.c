/* Ranges of Kafka partitions as the buffers of Arrow arrays, by the librdkafka that confluent-kafka brings.
 *
 * Nothing is linked and no header of librdkafka is needed: `load` finds its public functions in confluent-kafka's own module. TLS, SASL, codecs, transactions and changes of leaders are librdkafka's.
 *
 * Contracts:
 *  - A Client is one librdkafka handle. It belongs to the process that made it: in a forked child it does nothing, not even end.
 *  - A Part is one range that is being fetched, by the simple consumer (no group, no coordinator). A partition can be fetched once per Client: a second fetcher on it would starve.
 *  - librdkafka knows no end of a range, and what it fetched beyond would be thrown away. So what has come is taken from it early, and fetching stops as soon as all of the range is there.
 *  - A Part keeps its Client alive, and a Client with open Parts refuses to be closed. One thread at a time may be in a Part; a second one is refused, not made to wait.
 *  - Buffers are `bytes`, which Arrow wraps without a copy. Everything that waits or copies runs without the GIL.
 *  - Error events of the handle are kept (the latest of each kind since they were last asked for) and given by `errors`; librdkafka's log lines are dropped.
 *
 * Written against the limited API of Python 3.10, so that one build serves every later version.
 */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define OLDEST_VERSION 0x02000000
#define CONSUMER 1
#define CONF_OK 0
#define TEXT_BYTES 512
#define ERRORS_MAX 16
#define DRAIN_MESSAGES 16384
#define HELD_MAX (4 * DRAIN_MESSAGES)
#define HELD_BYTES_MAX (2 * 1024 * 1024)
#define ERR_PARTITION_EOF (-191)
#define ERR_STATE (-172)
#define WANT_KEY 1
#define WANT_VALUE 2
#define WANT_HEADERS 4

/* librdkafka's public interface, as far as it is used. */
typedef struct rk_s rk_t;
typedef struct rk_conf_s rk_conf_t;
typedef struct rk_topic_s rk_topic_t;
typedef struct rk_queue_s rk_queue_t;
typedef struct rk_headers_s rk_headers_t;

typedef struct {
    int err;
    rk_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_;
} rk_message_t;

static struct {
    int (*version)(void);
    const char *(*version_str)(void);
    rk_conf_t *(*conf_new)(void);
    void (*conf_destroy)(rk_conf_t *);
    int (*conf_set)(rk_conf_t *, const char *, const char *, char *, size_t);
    void (*conf_set_opaque)(rk_conf_t *, void *);
    void (*conf_set_error_cb)(rk_conf_t *, void (*)(rk_t *, int, const char *, void *));
    void (*conf_set_log_cb)(rk_conf_t *, void (*)(const rk_t *, int, const char *, const char *));
    rk_t *(*new_)(int, rk_conf_t *, char *, size_t);
    void (*destroy)(rk_t *);
    int (*poll)(rk_t *, int);
    rk_topic_t *(*topic_new)(rk_t *, const char *, void *);
    void (*topic_destroy)(rk_topic_t *);
    rk_queue_t *(*queue_new)(rk_t *);
    void (*queue_destroy)(rk_queue_t *);
    int (*consume_start_queue)(rk_topic_t *, int32_t, int64_t, rk_queue_t *);
    int (*consume_stop)(rk_topic_t *, int32_t);
    ssize_t (*consume_batch_queue)(rk_queue_t *, int, rk_message_t **, size_t);
    void (*message_destroy)(rk_message_t *);
    int64_t (*message_timestamp)(const rk_message_t *, int *);
    int (*message_headers)(const rk_message_t *, rk_headers_t **);
    int (*header_get_all)(const rk_headers_t *, size_t, const char **, const void **, size_t *);
    int (*query_watermark_offsets)(rk_t *, const char *, int32_t, int64_t *, int64_t *, int);
    const char *(*err2str)(int);
    const char *(*err2name)(int);
    int (*last_error)(void);
} rk;

static const struct {
    const char *name;
    void *slot;
} SYMBOLS[] = {
    {"rd_kafka_version", &rk.version},
    {"rd_kafka_version_str", &rk.version_str},
    {"rd_kafka_conf_new", &rk.conf_new},
    {"rd_kafka_conf_destroy", &rk.conf_destroy},
    {"rd_kafka_conf_set", &rk.conf_set},
    {"rd_kafka_conf_set_opaque", &rk.conf_set_opaque},
    {"rd_kafka_conf_set_error_cb", &rk.conf_set_error_cb},
    {"rd_kafka_conf_set_log_cb", &rk.conf_set_log_cb},
    {"rd_kafka_new", &rk.new_},
    {"rd_kafka_destroy", &rk.destroy},
    {"rd_kafka_poll", &rk.poll},
    {"rd_kafka_topic_new", &rk.topic_new},
    {"rd_kafka_topic_destroy", &rk.topic_destroy},
    {"rd_kafka_queue_new", &rk.queue_new},
    {"rd_kafka_queue_destroy", &rk.queue_destroy},
    {"rd_kafka_consume_start_queue", &rk.consume_start_queue},
    {"rd_kafka_consume_stop", &rk.consume_stop},
    {"rd_kafka_consume_batch_queue", &rk.consume_batch_queue},
    {"rd_kafka_message_destroy", &rk.message_destroy},
    {"rd_kafka_message_timestamp", &rk.message_timestamp},
    {"rd_kafka_message_headers", &rk.message_headers},
    {"rd_kafka_header_get_all", &rk.header_get_all},
    {"rd_kafka_query_watermark_offsets", &rk.query_watermark_offsets},
    {"rd_kafka_err2str", &rk.err2str},
    {"rd_kafka_err2name", &rk.err2name},
    {"rd_kafka_last_error", &rk.last_error},
};

static int loaded;
static PyObject *KafkaError;
static PyObject *ClientType;
static PyObject *PartType;

typedef struct {
    int code;
    char text[TEXT_BYTES];
} event_t;

struct part_s;

typedef struct {
    PyObject_HEAD
    rk_t *handle;
    pid_t owner;
    int busy;              /* threads inside `bounds` or `errors` */
    struct part_s *parts;  /* the open ones */
    pthread_mutex_t lock;  /* of the two below: the error callback runs without the GIL */
    int events;
    event_t event[ERRORS_MAX];
} client_t;

typedef struct part_s {
    PyObject_HEAD
    client_t *client; /* NULL when closed */
    struct part_s *next_part;
    char *topic;
    int32_t partition;
    rk_topic_t *rkt;
    rk_queue_t *queue;
    int busy;
    int stopped;      /* nothing more is fetched: all of the range is held, or was given */
    int64_t position; /* of the next record that is not yet given */
    int64_t end;      /* of the range */
    rk_message_t **held;
    Py_ssize_t held_at, held_count;
    int64_t held_bytes;
} part_t;

static PyObject *raise_kafka(int code, const char *text) {
    PyObject *arguments = Py_BuildValue("(isz)", code, rk.err2name(code), text);
    if (arguments) {
        PyErr_SetObject(KafkaError, arguments);
        Py_DECREF(arguments);
    }
    return NULL;
}

/* ---- the handle ---- */

static void on_error(rk_t *handle, int code, const char *reason, void *opaque) {
    client_t *self = opaque;
    (void)handle;
    int at = 0;
    pthread_mutex_lock(&self->lock);
    while (at < self->events && self->event[at].code != code)
        at++;
    if (at < ERRORS_MAX) {
        event_t *event = &self->event[at];
        self->events = at == self->events ? at + 1 : self->events;
        event->code = code;
        strncpy(event->text, reason ? reason : "", TEXT_BYTES - 1);
        event->text[TEXT_BYTES - 1] = 0;
    }
    pthread_mutex_unlock(&self->lock);
}

static void on_log(const rk_t *handle, int level, const char *facility, const char *line) {
    (void)handle, (void)level, (void)facility, (void)line;
}

static int configure(rk_conf_t *conf, PyObject *settings, char *text) {
    PyObject *items = PyMapping_Items(settings);
    Py_ssize_t count = items ? PyList_Size(items) : -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name, *value;
        if (!PyArg_ParseTuple(PyList_GetItem(items, i), "ss", &name, &value)) {
            count = -1;
        } else if (rk.conf_set(conf, name, value, text, TEXT_BYTES) != CONF_OK) {
            PyErr_SetString(PyExc_ValueError, text);
            count = -1;
        }
    }
    Py_XDECREF(items);
    return count < 0 ? -1 : 0;
}

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *settings;
    char text[TEXT_BYTES] = "";
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Client takes one mapping of names to values");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O", &settings))
        return NULL;
    if (!loaded) {
        PyErr_SetString(PyExc_RuntimeError, "load() comes first");
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    client_t *self = (client_t *)alloc(type, 0);
    if (!self)
        return NULL;
    self->owner = getpid();
    pthread_mutex_init(&self->lock, NULL);
    rk_conf_t *conf = rk.conf_new();
    rk.conf_set_opaque(conf, self);
    rk.conf_set_error_cb(conf, on_error);
    rk.conf_set_log_cb(conf, on_log);
    if (configure(conf, settings, text) < 0) {
        rk.conf_destroy(conf);
        Py_DECREF(self);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    self->handle = rk.new_(CONSUMER, conf, text, sizeof text);
    Py_END_ALLOW_THREADS
    if (!self->handle) { /* the configuration is ours still */
        rk.conf_destroy(conf);
        PyErr_SetString(PyExc_ValueError, text);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Its handle, where this process may use it; NULL with an exception. */
static rk_t *usable(client_t *self) {
    if (!self->handle)
        PyErr_SetString(PyExc_RuntimeError, "the client is closed");
    else if (self->owner != getpid())
        PyErr_SetString(PyExc_RuntimeError, "the client belongs to the process that this one was forked from");
    else
        return self->handle;
    return NULL;
}

static void client_end(client_t *self) {
    rk_t *handle = self->handle;
    self->handle = NULL;
    if (handle && self->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS
        rk.destroy(handle);
        Py_END_ALLOW_THREADS
    }
}

static PyObject *client_close(client_t *self, PyObject *unused) {
    (void)unused;
    if (self->parts || self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the client is in use: close its parts first");
        return NULL;
    }
    client_end(self);
    Py_RETURN_NONE;
}

static void client_dealloc(client_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    client_end(self); /* no part is open: each holds a reference */
    pthread_mutex_destroy(&self->lock);
    release(self);
    Py_DECREF(type);
}

static PyObject *client_bounds(client_t *self, PyObject *args) {
    const char *topic;
    int partition, timeout_ms, code;
    int64_t low = -1, high = -1;
    rk_t *handle;
    if (!PyArg_ParseTuple(args, "sii", &topic, &partition, &timeout_ms) || !(handle = usable(self)))
        return NULL;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    code = rk.query_watermark_offsets(handle, topic, partition, &low, &high, timeout_ms);
    rk.poll(handle, 0);
    Py_END_ALLOW_THREADS
    self->busy--;
    return code ? raise_kafka(code, rk.err2str(code)) : Py_BuildValue("(LL)", (long long)low, (long long)high);
}

static PyObject *client_errors(client_t *self, PyObject *unused) {
    event_t *copy = malloc(sizeof self->event);
    rk_t *handle = usable(self);
    int count = 0;
    (void)unused;
    if (!copy || !handle) {
        free(copy);
        return handle ? PyErr_NoMemory() : NULL;
    }
    self->busy++;
    Py_BEGIN_ALLOW_THREADS
    rk.poll(handle, 0);
    pthread_mutex_lock(&self->lock);
    count = self->events;
    memcpy(copy, self->event, count * sizeof *copy);
    self->events = 0;
    pthread_mutex_unlock(&self->lock);
    Py_END_ALLOW_THREADS
    self->busy--;
    PyObject *found = PyList_New(0);
    for (int i = 0; found && i < count; i++) {
        PyObject *text = PyUnicode_DecodeUTF8(copy[i].text, strlen(copy[i].text), "replace");
        PyObject *event = text ? Py_BuildValue("(isN)", copy[i].code, rk.err2name(copy[i].code), text) : NULL;
        if (!event || PyList_Append(found, event) < 0)
            Py_CLEAR(found);
        Py_XDECREF(event);
    }
    free(copy);
    return found;
}

/* ---- an open partition ---- */

static int64_t bytes_of(const rk_message_t *message) { return (int64_t)(message->len + message->key_len); }

/* Let go of the next of the held messages. */
static void drop_held(part_t *self) {
    rk_message_t *message = self->held[self->held_at++];
    self->held_bytes -= bytes_of(message);
    rk.message_destroy(message);
}

static PyObject *client_open(client_t *self, PyObject *args) {
    const char *topic;
    int partition, code = 0;
    long long offset, end;
    rk_t *handle;
    if (!PyArg_ParseTuple(args, "siLL", &topic, &partition, &offset, &end) || !(handle = usable(self)))
        return NULL;
    for (part_t *other = self->parts; other; other = other->next_part)
        if (!other->stopped && other->partition == partition && !strcmp(other->topic, topic))
            return raise_kafka(ERR_STATE, "the partition is already open");
    allocfunc alloc = (allocfunc)PyType_GetSlot((PyTypeObject *)PartType, Py_tp_alloc);
    part_t *part = (part_t *)alloc((PyTypeObject *)PartType, 0);
    if (!part)
        return NULL;
    part->topic = strdup(topic);
    part->held = malloc(HELD_MAX * sizeof *part->held);
    if (!part->topic || !part->held) {
        Py_DECREF(part);
        return PyErr_NoMemory();
    }
    part->partition = partition;
    part->position = offset;
    part->end = end;
    part->rkt = rk.topic_new(handle, topic, NULL);
    if (!part->rkt) {
        code = rk.last_error();
        Py_DECREF(part);
        return raise_kafka(code, rk.err2str(code));
    }
    part->queue = rk.queue_new(handle);
    if (rk.consume_start_queue(part->rkt, partition, offset, part->queue)) {
        code = rk.last_error();
        rk.queue_destroy(part->queue);
        rk.topic_destroy(part->rkt);
        Py_DECREF(part);
        return raise_kafka(code, rk.err2str(code));
    }
    Py_INCREF(self);
    part->client = self;
    part->next_part = self->parts;
    self->parts = part;
    return (PyObject *)part;
}

static void part_end(part_t *self) {
    client_t *client = self->client;
    if (!client)
        return;
    self->client = NULL;
    if (client->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS /* still listed: nobody opens it again before it is stopped */
        while (self->held_at < self->held_count)
            drop_held(self);
        if (!self->stopped)
            rk.consume_stop(self->rkt, self->partition);
        rk.queue_destroy(self->queue);
        rk.topic_destroy(self->rkt);
        Py_END_ALLOW_THREADS
    }
    for (part_t **link = &client->parts; *link; link = &(*link)->next_part)
        if (*link == self) {
            *link = self->next_part;
            break;
        }
    Py_DECREF(client);
}

static PyObject *part_close(part_t *self, PyObject *unused) {
    (void)unused;
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread reads this part");
        return NULL;
    }
    part_end(self);
    Py_RETURN_NONE;
}

static void part_dealloc(part_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    part_end(self);
    free(self->topic);
    free(self->held);
    release(self);
    Py_DECREF(type);
}

/* Whether all of the range is there with this message. */
static int reaches_end(const part_t *self, const rk_message_t *message) {
    return message->err == ERR_PARTITION_EOF ? message->offset >= self->end : !message->err && message->offset >= self->end - 1;
}

/* What has come, into `held`; where nothing is held, what comes first within the time, and what came with it. */
static void fill(part_t *self, int timeout_ms) {
    Py_ssize_t left = self->held_count - self->held_at;
    if (self->stopped || self->held_bytes >= HELD_BYTES_MAX || left > HELD_MAX - DRAIN_MESSAGES)
        return;
    memmove(self->held, self->held + self->held_at, left * sizeof *self->held);
    self->held_at = 0;
    self->held_count = left;
    ssize_t count = rk.consume_batch_queue(self->queue, 0, self->held + left, DRAIN_MESSAGES);
    if (count <= 0 && !left) {
        count = rk.consume_batch_queue(self->queue, timeout_ms, self->held, 1);
        if (count > 0) {
            ssize_t more = rk.consume_batch_queue(self->queue, 0, self->held + 1, DRAIN_MESSAGES - 1);
            count += more > 0 ? more : 0;
        }
    }
    if (count <= 0)
        return;
    for (; count; count--)
        self->held_bytes += bytes_of(self->held[self->held_count++]);
    if (reaches_end(self, self->held[self->held_count - 1])) {
        rk.consume_stop(self->rkt, self->partition);
        self->stopped = 1;
    }
}

typedef struct {
    Py_ssize_t begin, end, rows; /* messages of `held`, and how many of them are records */
    int64_t key_bytes, value_bytes, name_bytes, content_bytes, headers;
    int key_nulls, value_nulls, content_nulls, header_nulls;
    int ended; /* the range is */
    int error; /* the message at `end` is one */
} extent_t;

static void measure_headers(const rk_message_t *message, extent_t *extent) {
    rk_headers_t *headers = NULL;
    const char *name;
    const void *content;
    size_t length;
    int64_t before = extent->headers;
    if (!rk.message_headers(message, &headers))
        for (size_t i = 0; !rk.header_get_all(headers, i, &name, &content, &length); i++) {
            extent->headers++;
            extent->name_bytes += strlen(name);
            extent->content_bytes += content ? length : 0;
            extent->content_nulls |= !content;
        }
    extent->header_nulls |= extent->headers == before;
}

/* How far the next rows go: to the end of the range, to an error, or to a limit. Events that are not records are taken along. */
static void measure(part_t *self, Py_ssize_t max_rows, int64_t max_bytes, int want, extent_t *extent) {
    int64_t to = self->end;
    memset(extent, 0, sizeof *extent);
    extent->begin = extent->end = self->held_at;
    while (extent->end < self->held_count && !extent->ended && extent->rows < max_rows &&
           extent->key_bytes + extent->value_bytes + extent->name_bytes + extent->content_bytes < max_bytes) {
        rk_message_t *message = self->held[extent->end];
        if (message->err == ERR_PARTITION_EOF) {
            self->position = message->offset > self->position ? message->offset : self->position;
            extent->ended = message->offset >= to;
        } else if (message->err) {
            extent->error = 1;
            return;
        } else if (message->offset >= to) {
            self->position = to;
            extent->ended = 1;
        } else {
            extent->rows++;
            extent->key_bytes += want & WANT_KEY && message->key ? message->key_len : 0;
            extent->key_nulls |= !message->key;
            extent->value_bytes += want & WANT_VALUE && message->payload ? message->len : 0;
            extent->value_nulls |= !message->payload;
            if (want & WANT_HEADERS)
                measure_headers(message, extent);
            self->position = message->offset + 1;
            extent->ended = self->position >= to;
        }
        extent->end++;
    }
    if (self->position > to)
        self->position = to;
}

/* One column of bytes: offsets, data and, where something is null, which are not. */
typedef struct {
    PyObject *offsets, *data, *valid;
    int32_t *offset_at;
    char *data_at;
    unsigned char *valid_at;
    int32_t filled;
    Py_ssize_t row;
} column_t;

static void *buffer(PyObject **object, int64_t size) {
    *object = PyBytes_FromStringAndSize(NULL, size);
    return *object ? PyBytes_AsString(*object) : NULL;
}

static int column_new(column_t *column, int64_t rows, int64_t bytes, int nulls) {
    memset(column, 0, sizeof *column);
    if (!(column->offset_at = buffer(&column->offsets, (rows + 1) * sizeof(int32_t))) || !(column->data_at = buffer(&column->data, bytes)))
        return -1;
    column->offset_at[0] = 0;
    if (nulls) {
        if (!(column->valid_at = buffer(&column->valid, (rows + 7) / 8)))
            return -1;
        memset(column->valid_at, 0, (rows + 7) / 8);
    }
    return 0;
}

static void column_add(column_t *column, const void *content, size_t length) {
    if (content) {
        if (length)
            memcpy(column->data_at + column->filled, content, length);
        column->filled += (int32_t)length;
        if (column->valid_at)
            column->valid_at[column->row / 8] |= (unsigned char)(1 << column->row % 8);
    }
    column->offset_at[++column->row] = column->filled;
}

/* A list column is told how many entries there are by now; none at all is null. */
static void list_add(column_t *list, Py_ssize_t entries) {
    if (list->valid_at && entries > list->offset_at[list->row])
        list->valid_at[list->row / 8] |= (unsigned char)(1 << list->row % 8);
    list->offset_at[++list->row] = (int32_t)entries;
}

static void column_clear(column_t *column) {
    Py_CLEAR(column->offsets);
    Py_CLEAR(column->data);
    Py_CLEAR(column->valid);
}

/* (offsets, data, valid or None); takes the references. */
static PyObject *column_given(column_t *column) {
    PyObject *given = NULL;
    if (column->offsets)
        given = Py_BuildValue("(OOO)", column->offsets, column->data, column->valid ? column->valid : Py_None);
    else
        given = Py_NewRef(Py_None);
    column_clear(column);
    return given;
}

typedef struct {
    column_t key, value, list, name, content;
    PyObject *offset, *time, *kind;
    int64_t *offset_at, *time_at;
    int32_t *kind_at;
} rows_t;

static int rows_new(rows_t *rows, const extent_t *extent, int want) {
    memset(rows, 0, sizeof *rows);
    if (!(rows->offset_at = buffer(&rows->offset, extent->rows * sizeof(int64_t))) || !(rows->time_at = buffer(&rows->time, extent->rows * sizeof(int64_t))) ||
        !(rows->kind_at = buffer(&rows->kind, extent->rows * sizeof(int32_t))))
        return -1;
    if (want & WANT_KEY && column_new(&rows->key, extent->rows, extent->key_bytes, extent->key_nulls) < 0)
        return -1;
    if (want & WANT_VALUE && column_new(&rows->value, extent->rows, extent->value_bytes, extent->value_nulls) < 0)
        return -1;
    if (want & WANT_HEADERS && (column_new(&rows->list, extent->rows, 0, extent->header_nulls) < 0 || column_new(&rows->name, extent->headers, extent->name_bytes, 0) < 0 ||
                                column_new(&rows->content, extent->headers, extent->content_bytes, extent->content_nulls) < 0))
        return -1;
    return 0;
}

static void rows_clear(rows_t *rows) {
    column_clear(&rows->key);
    column_clear(&rows->value);
    column_clear(&rows->list);
    column_clear(&rows->name);
    column_clear(&rows->content);
    Py_CLEAR(rows->offset);
    Py_CLEAR(rows->time);
    Py_CLEAR(rows->kind);
}

/* Microseconds of milliseconds; INT64_MIN (NO_TIME of arrays.py) where that does not fit. */
static int64_t microseconds(int64_t ms) {
    const int64_t most = INT64_MAX / 1000;
    return ms > most || ms < -most ? INT64_MIN : ms * 1000;
}

/* Copy what was measured and let go of the messages. */
static void rows_fill(part_t *self, rows_t *rows, const extent_t *extent, int want) {
    Py_ssize_t row = 0;
    for (; self->held_at < extent->end; drop_held(self)) {
        rk_message_t *message = self->held[self->held_at];
        if (!message->err && message->offset < self->end) {
            int kind = 0;
            rows->offset_at[row] = message->offset;
            rows->time_at[row] = microseconds(rk.message_timestamp(message, &kind));
            rows->kind_at[row] = kind == 1 ? 0 : kind == 2 ? 1 : -1;
            row++;
            if (want & WANT_KEY)
                column_add(&rows->key, message->key, message->key_len);
            if (want & WANT_VALUE)
                column_add(&rows->value, message->payload, message->len);
            if (want & WANT_HEADERS) {
                rk_headers_t *headers = NULL;
                const char *name;
                const void *content;
                size_t length;
                if (!rk.message_headers(message, &headers))
                    for (size_t i = 0; !rk.header_get_all(headers, i, &name, &content, &length); i++) {
                        column_add(&rows->name, name, strlen(name));
                        column_add(&rows->content, content, length);
                    }
                list_add(&rows->list, rows->name.row);
            }
        }
    }
}

static PyObject *headers_given(rows_t *rows) {
    if (!rows->list.offsets)
        return Py_NewRef(Py_None);
    Py_ssize_t count = rows->name.row;
    PyObject *list = column_given(&rows->list), *name = column_given(&rows->name), *content = column_given(&rows->content);
    if (list && name && content)
        return Py_BuildValue("(nNNN)", count, list, name, content);
    Py_XDECREF(list);
    Py_XDECREF(name);
    Py_XDECREF(content);
    return NULL;
}

static PyObject *given(part_t *self, rows_t *rows, const extent_t *extent) {
    PyObject *key = column_given(&rows->key), *value = column_given(&rows->value), *headers = headers_given(rows), *answer = NULL;
    if (key && value && headers)
        answer = Py_BuildValue("(nLOOOOOOO)", extent->rows, (long long)self->position, extent->ended ? Py_True : Py_False, key, value, rows->offset, rows->time, rows->kind, headers);
    Py_XDECREF(key);
    Py_XDECREF(value);
    Py_XDECREF(headers);
    rows_clear(rows);
    return answer;
}

/* The error at the head of `held`, as an exception. */
static PyObject *raise_held(part_t *self) {
    rk_message_t *message = self->held[self->held_at];
    char text[TEXT_BYTES];
    int code = message->err;
    size_t length = message->payload ? message->len : 0;
    if (length >= sizeof text)
        length = sizeof text - 1;
    if (length)
        memcpy(text, message->payload, length);
    text[length] = 0;
    drop_held(self);
    return raise_kafka(code, length ? text : rk.err2str(code));
}

static PyObject *part_read(part_t *self, PyObject *args) {
    long long max_bytes;
    Py_ssize_t max_rows;
    int timeout_ms, want;
    extent_t extent;
    rows_t rows;
    if (!PyArg_ParseTuple(args, "nLii", &max_rows, &max_bytes, &timeout_ms, &want))
        return NULL;
    if (max_rows < 1 || max_bytes < 1 || max_bytes > INT32_MAX / 2) {
        PyErr_SetString(PyExc_ValueError, "at least one row and one byte, and not more than a gigabyte");
        return NULL;
    }
    if (!self->client || self->busy) {
        PyErr_SetString(PyExc_RuntimeError, self->busy ? "another thread reads this part" : "the part is closed");
        return NULL;
    }
    if (!usable(self->client))
        return NULL;
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    fill(self, timeout_ms);
    measure(self, max_rows, max_bytes, want, &extent);
    Py_END_ALLOW_THREADS
    self->busy = 0;
    if (extent.error && extent.end == extent.begin)
        return raise_held(self);
    if (extent.end == extent.begin)
        Py_RETURN_NONE;
    if (extent.key_bytes > INT32_MAX || extent.value_bytes > INT32_MAX || extent.name_bytes > INT32_MAX || extent.content_bytes > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more than two gigabytes in one batch");
        return NULL;
    }
    if (rows_new(&rows, &extent, want) < 0) {
        rows_clear(&rows);
        return NULL;
    }
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    rows_fill(self, &rows, &extent, want);
    Py_END_ALLOW_THREADS
    self->busy = 0;
    return given(self, &rows, &extent);
}

/* ---- the module ---- */

static PyObject *load(PyObject *module, PyObject *args) {
    PyObject *path;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    void *library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL); /* stays: the functions are used as long as the process lives */
    Py_DECREF(path);
    if (!library) {
        PyErr_SetString(PyExc_ImportError, dlerror());
        return NULL;
    }
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *found = dlsym(library, SYMBOLS[i].name);
        if (!found) {
            PyErr_Format(PyExc_ImportError, "this librdkafka has no %s", SYMBOLS[i].name);
            return NULL;
        }
        memcpy(SYMBOLS[i].slot, &found, sizeof found);
    }
    if (rk.version() < OLDEST_VERSION) {
        PyErr_Format(PyExc_ImportError, "librdkafka %s is too old: 2.0 is needed", rk.version_str());
        return NULL;
    }
    loaded = 1;
    return PyUnicode_FromString(rk.version_str());
}

static PyMethodDef CLIENT_METHODS[] = {
    {"open", (PyCFunction)client_open, METH_VARARGS, "open(topic, partition, offset, end) -> Part, which fetches at once. KafkaError where the partition is being fetched already."},
    {"bounds", (PyCFunction)client_bounds, METH_VARARGS, "bounds(topic, partition, timeout_ms) -> (first offset, offset after the last record that can be read). KafkaError."},
    {"errors", (PyCFunction)client_errors, METH_NOARGS, "errors() -> [(code, name, text)] since the last call."},
    {"close", (PyCFunction)client_close, METH_NOARGS, "End the handle. RuntimeError while parts are open."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot CLIENT_SLOTS[] = {
    {Py_tp_new, client_new}, {Py_tp_dealloc, client_dealloc}, {Py_tp_methods, CLIENT_METHODS}, {Py_tp_doc, "Client({name: value}): one librdkafka handle. ValueError names a setting that is refused."}, {0, NULL},
};
static PyType_Spec CLIENT_SPEC = {"consumer.spark.decode._rdk.Client", sizeof(client_t), 0, Py_TPFLAGS_DEFAULT, CLIENT_SLOTS};

static PyMethodDef PART_METHODS[] = {
    {"read", (PyCFunction)part_read, METH_VARARGS,
     "read(max_rows, max_bytes, timeout_ms, want) -> None when nothing came, else (rows, position, ended, key, value, offset, time_us, time_kind, headers); a column of bytes is "
     "(offsets, data, valid or None), headers (count, list, names, contents), what is not wanted None. KafkaError."},
    {"close", (PyCFunction)part_close, METH_NOARGS, "Stop fetching. Nothing happens when it is closed."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot PART_SLOTS[] = {{Py_tp_dealloc, part_dealloc}, {Py_tp_methods, PART_METHODS}, {Py_tp_doc, "A range that is being fetched; made by Client.open."}, {0, NULL}};
static PyType_Spec PART_SPEC = {"consumer.spark.decode._rdk.Part", sizeof(part_t), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, PART_SLOTS};

static PyMethodDef FUNCTIONS[] = {
    {"load", load, METH_VARARGS, "load(path of confluent_kafka.cimpl) -> librdkafka's version. ImportError says why it cannot be used."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_rdk", "Ranges of Kafka partitions as the buffers of Arrow arrays.", -1, FUNCTIONS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__rdk(void) {
    PyObject *module = PyModule_Create(&MODULE);
    if (!module)
        return NULL;
    KafkaError = PyErr_NewException("consumer.spark.decode._rdk.KafkaError", NULL, NULL);
    ClientType = PyType_FromSpec(&CLIENT_SPEC);
    PartType = PyType_FromSpec(&PART_SPEC);
    if (!KafkaError || !ClientType || !PartType || PyModule_AddObjectRef(module, "KafkaError", KafkaError) < 0 || PyModule_AddObjectRef(module, "Client", ClientType) < 0 ||
        PyModule_AddObjectRef(module, "Part", PartType) < 0 || PyModule_AddIntConstant(module, "WANT_KEY", WANT_KEY) < 0 || PyModule_AddIntConstant(module, "WANT_VALUE", WANT_VALUE) < 0 ||
        PyModule_AddIntConstant(module, "WANT_HEADERS", WANT_HEADERS) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
