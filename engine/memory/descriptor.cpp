#include "memory/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace paceline {

namespace {

std::size_t file_size(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw std::system_error(errno, std::generic_category(), "fstat of shared memory");
  return static_cast<std::size_t>(status.st_size);
}

void* checked(void* mapped) {
  if (mapped == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap of shared memory");
  return mapped;
}

// Maps at a multiple of `kHugePage`: the kernel maps huge pages only if the address and the offset in the file agree.
void* map_aligned(int fd, std::size_t size) {
  auto* room = static_cast<std::byte*>(
      checked(::mmap(nullptr, size + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)));
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(room) % kHugePage;
  void* data = ::mmap(room + before, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, size + kHugePage);
    errno = error;
  } else {
    if (before > 0) ::munmap(room, before);
    ::munmap(room + before + size, kHugePage - before);
  }
  return checked(data);
}

}  // namespace

Mapping::Mapping(int fd, std::size_t size) : size_(size) {
  if (file_size(fd) < size)
    throw std::system_error(EINVAL, std::generic_category(), "shared memory is smaller than expected");
  data_ = checked(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  // A forked child, for example a data loader, must neither use nor keep alive what belongs to this rank.
  ::madvise(data_, size, MADV_DONTFORK);
}

Mapping Mapping::whole(int fd) {
  Mapping mapping;
  mapping.size_ = file_size(fd);
  mapping.data_ = map_aligned(fd, mapping.size_);
  return mapping;
}

Descriptor create_shared_memory(const char* name, std::size_t size) {
  Descriptor fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw std::system_error(errno, std::generic_category(), "memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    throw std::system_error(errno, std::generic_category(), "ftruncate of shared memory");
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return fd;
}

}  // namespace paceline
