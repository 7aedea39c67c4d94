/* See manifest.h. JSON by cJSON; the file is read whole, so its size is bounded first. */
#define _GNU_SOURCE
#include "checkpoint/manifest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "base/memory.h"
#include "io/atomic_file.h"
#include "io/input_file.h"
#include "io/json.h"

static const char file_name[] = "manifest.json";

/* Of a file: 80,000 checkpoints. */
enum { MANIFEST_LIMIT = 32 << 20, VERSION = 1, DIGITS = 20 /* more than a count has */ };

bool yki_is_checkpoint_name(const char *name)
{
    static const char *const prefixes[] = {"checkpoint-step-", "checkpoint-"};
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], length) != 0)
            continue;
        size_t digits = strspn(name + length, "0123456789");
        return digits > 0 && digits < DIGITS && strcmp(name + length + digits, ".pth") == 0;
    }
    return false;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The file's text, ended by a zero; free it. */
static yk_status read_manifest_text(const yki_input_file *file, char **text)
{
    if (file->size > MANIFEST_LIMIT)
        return yki_error(YK_ERROR_FORMAT, "%s: expected a file of at most %d bytes, found %zu",
                         file->path, MANIFEST_LIMIT, file->size);
    char *data = yki_calloc(file->size + 1, 1);
    if (!data)
        return yki_error_memory(file->size, "a manifest");
    yk_status status = yki_input_file_read(file, 0, data, file->size);
    if (status == YK_OK)
        *text = data;
    else
        free(data);
    return status;
}

static bool to_count(const cJSON *object, const char *key, int64_t *count)
{
    return yki_json_is_count(cJSON_GetObjectItemCaseSensitive(object, key), count);
}

static void to_name(const cJSON *object, const char *key, char name[YKI_ORIGIN_NAME])
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    const char *text = cJSON_IsString(item) ? item->valuestring : "";
    yki_origin_keep(name, text, strlen(text));
}

static void to_origin(const cJSON *object, yki_origin *origin)
{
    to_name(object, "slurm_job", origin->slurm_job);
    to_name(object, "run_id", origin->run_id);
    to_name(object, "agent", origin->agent);
}

static bool to_entry(const cJSON *object, yki_manifest_entry *entry)
{
    const cJSON *file = cJSON_GetObjectItemCaseSensitive(object, "file");
    const cJSON *hash = cJSON_GetObjectItemCaseSensitive(object, "sha256");
    const cJSON *saved_at = cJSON_GetObjectItemCaseSensitive(object, "saved_at");
    *entry = (yki_manifest_entry){0};
    if (!cJSON_IsString(file) || !yki_is_checkpoint_name(file->valuestring) ||
        !cJSON_IsString(hash) || strlen(hash->valuestring) != YKI_SHA256_TEXT - 1 ||
        !cJSON_IsNumber(saved_at) || !isfinite(saved_at->valuedouble))
        return false;
    snprintf(entry->file, sizeof entry->file, "%s", file->valuestring);
    snprintf(entry->sha256, sizeof entry->sha256, "%s", hash->valuestring);
    entry->saved_at = saved_at->valuedouble;
    to_origin(object, &entry->origin);
    return to_count(object, "epoch", &entry->epoch) && to_count(object, "step", &entry->step) &&
           to_count(object, "bytes", &entry->bytes);
}

static yk_status parse_manifest(yki_manifest *manifest, const char *path, const char *text)
{
    const char *end = text;
    cJSON *root = cJSON_ParseWithOpts(text, &end, false);
    if (!root)
        return yki_error(YK_ERROR_FORMAT, "%s: offset %zu: expected JSON", path,
                         (size_t)(end - text));
    int64_t version = 0;
    yk_status status = YK_OK;
    if (!to_count(root, "version", &version) || version != VERSION)
        status = yki_error(YK_ERROR_FORMAT, "%s: expected a manifest of version %d", path, VERSION);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "checkpoints"), *item;
    cJSON_ArrayForEach(item, list)
    {
        yki_manifest_entry entry;
        if (status == YK_OK && !to_entry(item, &entry))
            status = yki_error(YK_ERROR_FORMAT,
                               "%s: entry %zu: expected file, epoch, step, bytes,"
                               " sha256 and saved_at",
                               path, manifest->count);
        if (status == YK_OK)
            status = yki_manifest_append(manifest, &entry);
    }
    const cJSON *saving = cJSON_GetObjectItemCaseSensitive(root, "saving");
    if (status == YK_OK && saving && !to_entry(saving, &manifest->saving))
        status = yki_error(YK_ERROR_FORMAT,
                           "%s: \"saving\": expected file, epoch, step, bytes, sha256 and saved_at",
                           path);
    cJSON_Delete(root);
    return status;
}

yk_status yki_manifest_read(yki_manifest *manifest, const char *dir)
{
    char path[PATH_MAX], *text = NULL;
    yki_input_file file;
    *manifest = (yki_manifest){0};
    YK_TRY(yki_join_path(path, dir, file_name));
    yk_status status = yki_input_file_open(&file, path);
    if (status != YK_OK)
        return status == YK_ERROR_NOT_FOUND ? YK_OK : status;
    status = read_manifest_text(&file, &text);
    if (status == YK_OK)
        status = parse_manifest(manifest, path, text);
    free(text);
    yki_input_file_close(&file);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* An empty name is left out. False without memory. */
static bool add_name(cJSON *object, const char *key, const char *name)
{
    return !name[0] || cJSON_AddStringToObject(object, key, name);
}

static bool add_origin(cJSON *object, const yki_origin *origin)
{
    return add_name(object, "slurm_job", origin->slurm_job) &&
           add_name(object, "run_id", origin->run_id) && add_name(object, "agent", origin->agent);
}

/* NULL without memory. */
static cJSON *entry_to_json(const yki_manifest_entry *entry)
{
    cJSON *object = cJSON_CreateObject();
    if (cJSON_AddStringToObject(object, "file", entry->file) &&
        cJSON_AddNumberToObject(object, "epoch", (double)entry->epoch) &&
        cJSON_AddNumberToObject(object, "step", (double)entry->step) &&
        cJSON_AddNumberToObject(object, "bytes", (double)entry->bytes) &&
        cJSON_AddStringToObject(object, "sha256", entry->sha256) &&
        cJSON_AddNumberToObject(object, "saved_at", entry->saved_at) &&
        add_origin(object, &entry->origin))
        return object;
    cJSON_Delete(object);
    return NULL;
}

/* NULL without memory. */
static cJSON *to_json(const yki_manifest *manifest)
{
    cJSON *root = cJSON_CreateObject();
    bool made = cJSON_AddNumberToObject(root, "version", VERSION);
    cJSON *list = cJSON_AddArrayToObject(root, "checkpoints");
    for (size_t i = 0; list && i < manifest->count; i++)
        made = cJSON_AddItemToArray(list, entry_to_json(&manifest->entries[i])) && made;
    if (list && manifest->saving.file[0])
        made = cJSON_AddItemToObjectCS(root, "saving", entry_to_json(&manifest->saving)) && made;
    if (made && list)
        return root;
    cJSON_Delete(root);
    return NULL;
}

/* The file at path, replaced by this text and a newline. */
static yk_status write_text(const char *path, const char *text)
{
    yki_atomic_file file;
    YK_TRY(yki_atomic_open(&file, path));
    yk_status status = yki_write_all(file.fd, path, text, strlen(text));
    if (status != YK_OK)
        goto abandon;
    status = yki_write_all(file.fd, path, "\n", 1);
    if (status != YK_OK)
        goto abandon;
    return yki_atomic_commit(&file);
abandon:
    yki_atomic_abandon(&file);
    return status;
}

yk_status yki_manifest_write(const yki_manifest *manifest, const char *dir)
{
    char path[PATH_MAX];
    YK_TRY(yki_join_path(path, dir, file_name));
    cJSON *root = to_json(manifest);
    char *text = root ? cJSON_Print(root) : NULL;
    cJSON_Delete(root);
    if (!text)
        return yki_error_memory(manifest->count * 256, "a manifest");
    yk_status status =
        strlen(text) < MANIFEST_LIMIT
            ? write_text(path, text)
            : yki_error(YK_ERROR_UNSUPPORTED,
                        "%s: cannot list %zu checkpoints, which take more than %d bytes: continue "
                        "in another folder",
                        path, manifest->count, MANIFEST_LIMIT);
    cJSON_free(text);
    return status;
}

/* ---- the list ------------------------------------------------------------------------------- */

void yki_manifest_fini(yki_manifest *manifest)
{
    free(manifest->entries);
    *manifest = (yki_manifest){0};
}

yki_manifest_entry *yki_manifest_find(const yki_manifest *manifest, const char *file)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (strcmp(manifest->entries[i].file, file) == 0)
            return &manifest->entries[i];
    return NULL;
}

yk_status yki_manifest_append(yki_manifest *manifest, const yki_manifest_entry *entry)
{
    if (!yki_grow(&manifest->entries, manifest->count, &manifest->room, sizeof *entry))
        return yki_error_memory((manifest->count + 1) * sizeof *entry, "a manifest");
    manifest->entries[manifest->count++] = *entry;
    return YK_OK;
}

bool yki_manifest_remove(yki_manifest *manifest, const char *file)
{
    yki_manifest_entry *entry = yki_manifest_find(manifest, file);
    if (!entry)
        return false;
    size_t index = (size_t)(entry - manifest->entries);
    memmove(entry, entry + 1, (manifest->count - index - 1) * sizeof *entry);
    manifest->count--;
    return true;
}
