// SPDX-License-Identifier: Apache-2.0
// Lazy stubs for the functions of libzip that Sinter calls. A further function needs one more row.
#include <zip.h>

#include "runtime/libraries/lazy/lazy_library.h"

namespace {
constinit sinter::libraries::LazyLibrary libzip(SINTER_ZIP_SONAME, "libzip (.npz files)",
                                                "apt install " SINTER_ZIP_PACKAGE);
}  // namespace

SINTER_LAZY_1(libzip, zip_close)
SINTER_LAZY_1(libzip, zip_discard)
SINTER_LAZY_1(libzip, zip_error_init)
SINTER_LAZY_1(libzip, zip_fclose)
SINTER_LAZY_3(libzip, zip_fdopen)
SINTER_LAZY_4(libzip, zip_file_add)
SINTER_LAZY_3(libzip, zip_fopen_index)
SINTER_LAZY_3(libzip, zip_fread)
SINTER_LAZY_2(libzip, zip_get_num_entries)
SINTER_LAZY_3(libzip, zip_open_from_source)
SINTER_LAZY_4(libzip, zip_set_file_compression)
SINTER_LAZY_4(libzip, zip_source_buffer)
SINTER_LAZY_4(libzip, zip_source_buffer_create)
SINTER_LAZY_1(libzip, zip_source_close)
SINTER_LAZY_1(libzip, zip_source_free)
SINTER_LAZY_1(libzip, zip_source_keep)
SINTER_LAZY_1(libzip, zip_source_open)
SINTER_LAZY_3(libzip, zip_source_read)
SINTER_LAZY_4(libzip, zip_stat_index)
SINTER_LAZY_1(libzip, zip_strerror)
