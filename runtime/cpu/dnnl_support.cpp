#include "runtime/cpu/dnnl_support.h"

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::runtime::cpu {

using plan::fb::Activation;

PackedWeights::PackedWeights() = default;
PackedWeights::~PackedWeights() = default;

std::uint64_t PackedWeights::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const auto& [key, entry] : entries_) total += entry->memory.get_desc().get_size();
  return total;
}

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  return stream;
}

void append_activation(dnnl::post_ops& ops, Activation activation) {
  switch (activation) {
    case Activation::None: return;
    case Activation::Relu: ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0, 0); return;
    case Activation::GeluErf:
      ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
      return;
    case Activation::GeluTanh:
      ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_tanh, 0, 0);
      return;
    default: break;
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("activation {} as a part of a product or convolution on the CPU: "
                          "recompile the model with this version of Sinter",
                          plan::fb::EnumNameActivation(activation)));
}

std::shared_ptr<const PackedWeights::Entry> pack(PackedWeights& weights, std::uint32_t buffer,
                                                 const void* data, const dnnl::memory::desc& plain,
                                                 const dnnl::memory::desc& wanted) {
  // The descriptors' bytes identify the layouts: oneDNN gives no other name for one.
  std::string layout(reinterpret_cast<const char*>(&wanted.data), sizeof wanted.data);
  layout.append(reinterpret_cast<const char*>(&plain.data), sizeof plain.data);
  layout.append(reinterpret_cast<const char*>(&data), sizeof data);  // one buffer may hold several
  return weights.find_or_make(buffer, layout, [&] {
    auto entry = std::make_shared<PackedWeights::Entry>();
    dnnl::memory source(plain, dnnl_engine(), const_cast<void*>(data));
    entry->memory = dnnl::memory(wanted, dnnl_engine());
    dnnl::reorder(source, entry->memory).execute(dnnl_stream(), source, entry->memory);
    dnnl_stream().wait();
    return entry;
  });
}

void BoundPrimitive::bind(int argument, const dnnl::memory::desc& layout, std::uint32_t buffer,
                          std::uint64_t byte_offset) {
  arguments.insert_or_assign(argument, dnnl::memory(layout, dnnl_engine(), DNNL_MEMORY_NONE));
  addresses.push_back({argument, buffer, byte_offset});
}

void BoundPrimitive::execute(std::span<std::byte* const> buffers) {
  for (const auto& [argument, buffer, byte_offset] : addresses)
    arguments.at(argument).set_data_handle(buffers[buffer] + byte_offset);
  primitive.execute(dnnl_stream(), arguments);
  dnnl_stream().wait();
}

}  // namespace sinter::runtime::cpu
