#include "runtime/cpu/dnnl_support.h"

#include <algorithm>
#include <cmath>

#include <omp.h>

#include "runtime/cpu/parallel.h"

namespace sinter::runtime::cpu {

using plan::fb::Activation;

// Many weights share a chunk, so that small ones lie in large pages too.
PackedWeights::PackedWeights(std::size_t plan_bytes)
    : chunk_bytes_(std::clamp<std::size_t>(plan_bytes, 1 << 12, 8 << 20)) {}

PackedWeights::~PackedWeights() = default;

std::byte* PackedWeights::allocate(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  if (chunks_.empty() || size > chunks_.back().capacity() - used_) {
    HostBuffer chunk;
    chunk.reserve(std::max(size, chunk_bytes_), "the weights in oneDNN's layout");
    chunks_.push_back(std::move(chunk));
    used_ = 0;
  }
  used_ += size;
  return chunks_.back().data() + (used_ - size);
}

std::uint64_t PackedWeights::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const HostBuffer& chunk : chunks_) total += chunk.capacity();
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

bool append_activation(dnnl::post_ops& ops, Activation activation, float a, float b) {
  using dnnl::algorithm;
  const auto append = [&](algorithm kind, float alpha = 0, float beta = 0) {
    ops.append_eltwise(1.0F, kind, alpha, beta);
    return true;
  };
  switch (activation) {
    case Activation::None: return true;
    case Activation::Relu: return append(algorithm::eltwise_relu);
    case Activation::GeluErf: return append(algorithm::eltwise_gelu_erf);
    case Activation::GeluTanh: return append(algorithm::eltwise_gelu_tanh);
    case Activation::Sigmoid: return append(algorithm::eltwise_logistic);
    case Activation::Tanh: return append(algorithm::eltwise_tanh);
    case Activation::Silu: return append(algorithm::eltwise_swish, 1);
    case Activation::LeakyRelu: return append(algorithm::eltwise_relu, a);
    case Activation::Clip: return append(algorithm::eltwise_clip, a, b);
    case Activation::HardSigmoid:
      return append(algorithm::eltwise_linear, a, b) && append(algorithm::eltwise_clip, 0, 1);
    case Activation::HardSwish:  // oneDNN's has these parameters and no others
      return std::abs(6 * a - 1) < 1e-6F && b == 0.5F && append(algorithm::eltwise_hardswish);
  }
  return false;
}

int threads_for(double multiplications) {
  constexpr double kPerThread = 256 * 1024;
  return static_cast<int>(
      std::clamp(multiplications / kPerThread, 1.0, static_cast<double>(omp_get_max_threads())));
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
    entry->memory = dnnl::memory(wanted, dnnl_engine(), weights.allocate(wanted.get_size()));
    dnnl::reorder(source, entry->memory).execute(dnnl_stream(), source, entry->memory);
    dnnl_stream().wait();
    return entry;
  });
}

void BoundPrimitive::bind(int argument, const dnnl::memory::desc& layout, std::uint32_t buffer,
                          std::uint64_t byte_offset) {
  dnnl::memory memory(layout, dnnl_engine(), DNNL_MEMORY_NONE);
  addresses_.push_back({memory.get(), buffer, byte_offset, nullptr});
  bind(argument, std::move(memory));
}

void BoundPrimitive::bind(int argument, dnnl::memory memory) {
  arguments_.push_back({argument, memory.get()});
  memories_.push_back(std::move(memory));
}

void BoundPrimitive::execute(std::span<std::byte* const> buffers) {
  for (Address& address : addresses_) {
    std::byte* data = buffers[address.buffer] + address.byte_offset;
    if (data == address.last) continue;
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(address.memory, data),
                            "could not set an argument's address");
    address.last = data;
  }
  const ThreadCount count(threads_);
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), dnnl_stream().get(),
                             static_cast<int>(arguments_.size()), arguments_.data()),
      "could not execute a primitive");
  dnnl_stream().wait();
}

}  // namespace sinter::runtime::cpu
