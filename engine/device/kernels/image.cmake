# Compiles the kernels by nvcc into one image, which image.cpp puts into the engine; without nvcc the image is empty.
set(kernels ${CMAKE_CURRENT_SOURCE_DIR}/engine/device/kernels)
set(first_nvcc 12.8)  # the first that knows sm_100
set(nvcc_version 0)
if(PACELINE_GPU_KERNELS AND NOT PACELINE_SANITIZE)
  find_program(PACELINE_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(PACELINE_NVCC)
    execute_process(COMMAND ${PACELINE_NVCC} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
    string(REGEX MATCH "release ([0-9.]+)" nvcc_version "${nvcc_version}")
    set(nvcc_version "${CMAKE_MATCH_1}")
  endif()
endif()

if(nvcc_version VERSION_LESS first_nvcc)
  message(STATUS "Kernels for GPUs are left out: there is no nvcc from ${first_nvcc} on, or it is not wanted")
  target_sources(engine PRIVATE ${kernels}/no_image.cpp)
  return()
endif()

message(STATUS "Kernels for GPUs are compiled by ${PACELINE_NVCC}")
set(image_folder ${CMAKE_CURRENT_BINARY_DIR}/image)
set(image ${image_folder}/kernels.fatbin)
# One pass of the compiler serves all: no kernel uses what only later GPUs have. GPUs after these compile the PTX.
set(architectures "-gencode=arch=compute_80,code=[sm_80,sm_86,sm_89,sm_90,sm_100,compute_80]")
file(MAKE_DIRECTORY ${image_folder})
# `-c` is for ccache; what is written is the image. As on the host, products and sums are rounded one by one (-fmad=false).
add_custom_command(OUTPUT ${image} DEPFILE ${image_folder}/kernels.d DEPENDS ${kernels}/code/all.cu VERBATIM
  COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${PACELINE_NVCC} -c -x cu -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -allow-unsupported-compiler
    -ccbin ${CMAKE_CXX_COMPILER} -I${CMAKE_CURRENT_SOURCE_DIR}/engine ${architectures} --fatbin --compress-mode=size
    -MD -MF ${image_folder}/kernels.d -o ${image} ${kernels}/code/all.cu
  COMMENT "Compiling the kernels for GPUs")
target_sources(engine PRIVATE ${kernels}/image.cpp)
set_source_files_properties(${kernels}/image.cpp PROPERTIES OBJECT_DEPENDS ${image} COMPILE_OPTIONS -Wa,-I${image_folder})
