/* What `_rdk.c` asks of librdkafka, of which messages come from a script (see shim.py): so that the extension can be given anything, without a broker. `shim_begin` is told the script; then one part may be opened. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef struct {
    int err;
    void *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_;
} message_t;

typedef struct {
    char *name;
    void *content;
    size_t length;
} header_t;

typedef struct {
    message_t message;
    int64_t time;
    int kind;
    size_t count;
    header_t headers[8];
} scripted_t;

static const uint8_t *script;
static size_t script_left, alive, handle;

static void take(void *into, size_t size) {
    if (size > script_left)
        abort();
    memcpy(into, script, size);
    script += size;
    script_left -= size;
}

/* Bytes of their own, so that a sanitizer sees who reads past their end; NULL where there are none. */
static void *bytes(size_t *length) {
    int32_t size;
    take(&size, sizeof size);
    *length = size < 0 ? 0 : (size_t)size;
    if (size < 0)
        return NULL;
    void *found = malloc(size ? (size_t)size : 1);
    take(found, (size_t)size);
    return found;
}

void shim_begin(const uint8_t *data, size_t length) {
    script = data;
    script_left = length;
}

/* How many messages were given and not destroyed. */
size_t shim_alive(void) { return alive; }

static message_t *next(void) {
    if (!script_left)
        return NULL;
    scripted_t *made = calloc(1, sizeof *made);
    int32_t fields[3]; /* error, kind of its time, number of headers */
    take(fields, sizeof fields);
    take(&made->message.offset, sizeof made->message.offset);
    take(&made->time, sizeof made->time);
    made->message.err = fields[0];
    made->kind = fields[1];
    made->count = (size_t)fields[2];
    made->message.key = bytes(&made->message.key_len);
    made->message.payload = bytes(&made->message.len);
    for (size_t i = 0; i < made->count; i++) {
        size_t length;
        char *name = bytes(&length);
        made->headers[i].name = calloc(1, length + 1);
        memcpy(made->headers[i].name, name, length);
        free(name);
        made->headers[i].content = bytes(&made->headers[i].length);
    }
    alive++;
    return &made->message;
}

int rd_kafka_version(void) { return 0x020800ff; }
const char *rd_kafka_version_str(void) { return "2.8.0-shim"; }
void *rd_kafka_conf_new(void) { return malloc(1); }
void rd_kafka_conf_destroy(void *conf) { free(conf); }
int rd_kafka_conf_set(void *conf, const char *name, const char *value, char *text, size_t size) {
    (void)conf, (void)name, (void)value, (void)text, (void)size;
    return 0;
}
void rd_kafka_conf_set_opaque(void *conf, void *opaque) { (void)conf, (void)opaque; }
void rd_kafka_conf_set_error_cb(void *conf, void *callback) { (void)conf, (void)callback; }
void rd_kafka_conf_set_log_cb(void *conf, void *callback) { (void)conf, (void)callback; }
void *rd_kafka_new(int type, void *conf, char *text, size_t size) {
    (void)type, (void)text, (void)size;
    free(conf);
    return &handle;
}
void rd_kafka_destroy(void *rk) { (void)rk; }
int rd_kafka_poll(void *rk, int timeout) { return (void)rk, (void)timeout, 0; }
void *rd_kafka_topic_new(void *rk, const char *topic, void *conf) { return (void)rk, (void)topic, (void)conf, &handle; }
void rd_kafka_topic_destroy(void *topic) { (void)topic; }
void *rd_kafka_queue_new(void *rk) { return (void)rk, &handle; }
void rd_kafka_queue_destroy(void *queue) { (void)queue; }
int rd_kafka_consume_start_queue(void *topic, int32_t partition, int64_t offset, void *queue) {
    (void)topic, (void)partition, (void)offset, (void)queue;
    return 0;
}
int rd_kafka_consume_stop(void *topic, int32_t partition) { return (void)topic, (void)partition, 0; }
ssize_t rd_kafka_consume_batch_queue(void *queue, int timeout, message_t **into, size_t size) {
    size_t count = 0;
    (void)queue, (void)timeout;
    while (count < size && count < 5 && (into[count] = next()))
        count++;
    return (ssize_t)count;
}
void rd_kafka_message_destroy(message_t *message) {
    scripted_t *made = (scripted_t *)message;
    for (size_t i = 0; i < made->count; i++) {
        free(made->headers[i].name);
        free(made->headers[i].content);
    }
    free(message->key);
    free(message->payload);
    free(made);
    alive--;
}
int64_t rd_kafka_message_timestamp(const message_t *message, int *kind) {
    *kind = ((const scripted_t *)message)->kind;
    return ((const scripted_t *)message)->time;
}
int rd_kafka_message_headers(const message_t *message, const void **headers) {
    *headers = message;
    return ((const scripted_t *)message)->count ? 0 : -156;
}
int rd_kafka_header_get_all(const void *headers, size_t at, const char **name, const void **content, size_t *length) {
    const scripted_t *made = headers;
    if (at >= made->count)
        return -156;
    *name = made->headers[at].name;
    *content = made->headers[at].content;
    *length = made->headers[at].length;
    return 0;
}
int rd_kafka_query_watermark_offsets(void *rk, const char *topic, int32_t partition, int64_t *low, int64_t *high, int timeout) {
    (void)rk, (void)topic, (void)partition, (void)timeout;
    *low = *high = 0;
    return 0;
}
const char *rd_kafka_err2str(int code) { return (void)code, "an error"; }
const char *rd_kafka_err2name(int code) { return (void)code, "AN_ERROR"; }
int rd_kafka_last_error(void) { return 0; }
