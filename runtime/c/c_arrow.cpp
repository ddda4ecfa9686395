// SPDX-License-Identifier: Apache-2.0
// The C ABI: columns of Arrow tables.
#include <sinter/arrow.h>

#include "runtime/c/c_handles.h"
#include "runtime/c/c_support.h"

namespace sinter::c {
namespace {

BatchOptions options_of(const Plan& plan, const sinter_batch_options* given_options) {
  BatchOptions options;
  if (!given_options) return options;
  const auto said = read_struct(given_options, "options");
  if (said.nulls != SINTER_NULLS_REFUSED && said.nulls != SINTER_NULLS_NAN)
    throw usage_error("there is no way {} to treat nulls", said.nulls);
  options.nulls = static_cast<Nulls>(said.nulls);
  options.cast = said.cast != 0;
  options.copy = said.copy != 0;
  options.all_inputs = said.all_inputs != 0;
  options.first_row = said.first_row;
  options.rows = said.rows == 0 ? -1 : said.rows;
  for (const sinter_input_columns& each : given_array(said.inputs, said.input_count, "inputs")) {
    InputColumns& columns = options.inputs.emplace_back();
    if (each.input >= plan.inputs().size())
      throw usage_error("there is no input {}: the plan has {}", each.input, plan.inputs().size());
    columns.input = plan.inputs()[each.input].name;
    for (const char* name : given_array(each.columns, each.column_count, "columns")) {
      if (!name) throw usage_error("the name of column {} is NULL", columns.columns.size());
      columns.columns.emplace_back(name);
    }
    if (each.mask) columns.mask = each.mask;
  }
  return options;
}

template <typename Array>
sinter_status bind(sinter_session* session, const ArrowSchema* schema, const Array* batch,
                   const sinter_batch_options* options, int32_t* in_place) {
  return with_session(session, [&](SessionObject& s) {
    const BoundBatch bound =
        bind_record_batch(s.session, given(schema, "schema"), given(batch, "batch"),
                          options_of(s.session.plan(), options));
    if (in_place) *in_place = bound.in_place.empty() ? 0 : 1;
  });
}

}  // namespace
}  // namespace sinter::c

using namespace sinter;
using c::with_session;

extern "C" {

sinter_status sinter_session_bind_record_batch(sinter_session* session, const ArrowSchema* schema,
                                               const ArrowArray* batch,
                                               const sinter_batch_options* options,
                                               int32_t* in_place) {
  return c::bind(session, schema, batch, options, in_place);
}

sinter_status sinter_session_bind_device_record_batch(sinter_session* session,
                                                      const ArrowSchema* schema,
                                                      const ArrowDeviceArray* batch,
                                                      const sinter_batch_options* options,
                                                      int32_t* in_place) {
  return c::bind(session, schema, batch, options, in_place);
}

sinter_status sinter_session_output_arrow(sinter_session* session, size_t index,
                                          ArrowSchema* schema, ArrowArray* array) {
  return with_session(session,
                      [&](c::SessionObject& s) { export_output(s.session, index, schema, array); });
}

sinter_status sinter_session_outputs_arrow(sinter_session* session, ArrowSchema* schema,
                                           ArrowArray* batch) {
  return with_session(session,
                      [&](c::SessionObject& s) { export_outputs(s.session, schema, batch); });
}

sinter_status sinter_session_output_arrow_device(sinter_session* session, size_t index,
                                                 ArrowSchema* schema, ArrowDeviceArray* array) {
  return with_session(session,
                      [&](c::SessionObject& s) { export_output(s.session, index, schema, array); });
}

sinter_status sinter_session_outputs_arrow_device(sinter_session* session, ArrowSchema* schema,
                                                  ArrowDeviceArray* batch) {
  return with_session(session,
                      [&](c::SessionObject& s) { export_outputs(s.session, schema, batch); });
}

}  // extern "C"
