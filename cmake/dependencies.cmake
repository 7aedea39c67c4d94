# The libraries yoke stands on. A missing one ends the configuration with the line that helps:
# which Debian package it is, and the script that installs it.
function(yoke_missing what package)
  message(FATAL_ERROR "yoke needs ${what}, which was not found.\n"
                      "On Debian it is the package ${package}; scripts/install-deps installs all "
                      "that is missing.\n")
endfunction()

# yoke_pkg(LIBZIP libzip libzip-dev) gives the target PkgConfig::LIBZIP.
macro(yoke_pkg name module package)
  pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
  if(NOT ${name}_FOUND)
    yoke_missing(${module} ${package})
  endif()
endmacro()

find_package(PkgConfig QUIET)
if(NOT PkgConfig_FOUND)
  yoke_missing(pkg-config pkgconf)
endif()
find_package(Threads REQUIRED)
find_package(OpenMP QUIET COMPONENTS C)
if(NOT OpenMP_C_FOUND)
  yoke_missing("OpenMP for ${CMAKE_C_COMPILER}" "libomp-dev (clang; gcc brings its own)")
endif()
# By hand: oneDNN's own package file asks for OpenCL's headers too when it was built with it.
find_library(DNNL_LIBRARY dnnl)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
if(NOT DNNL_LIBRARY OR NOT DNNL_INCLUDE_DIR)
  yoke_missing(oneDNN libdnnl-dev)
endif()
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
yoke_pkg(LIBZIP libzip libzip-dev)
yoke_pkg(LIBCRYPTO libcrypto libssl-dev)
yoke_pkg(LIBCJSON libcjson libcjson-dev)
yoke_pkg(ZLIB zlib zlib1g-dev)

# Optional parts. AUTO builds a part when its libraries are found, ON insists on them, OFF leaves it
# out; `yoke info` says which parts a program has.
set(YOKE_DOWNLOAD AUTO CACHE STRING "Downloading data sets, reports to Kubeflow (libcurl, libarchive): AUTO, ON or OFF")
set(YOKE_IMAGE AUTO CACHE STRING "Pictures: JPEG, PNG and WebP (libjpeg, libpng, libwebp): AUTO, ON or OFF")

# yoke_optional(IMAGE LIBPNG libpng libpng-dev) sets YOKE_HAS_IMAGE, and unsets it again where one
# of several libraries is missing.
macro(yoke_optional part name module package)
  set_property(CACHE YOKE_${part} PROPERTY STRINGS AUTO ON OFF)
  if(NOT YOKE_${part} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "YOKE_${part} is ${YOKE_${part}}: expected AUTO, ON or OFF.")
  endif()
  if(NOT DEFINED YOKE_HAS_${part})
    set(YOKE_HAS_${part} ON)
  endif()
  if(YOKE_${part} STREQUAL ON)
    yoke_pkg(${name} ${module} ${package})
  elseif(YOKE_${part} STREQUAL AUTO)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
  endif()
  if(YOKE_${part} STREQUAL OFF)
    set(YOKE_HAS_${part} OFF)
  elseif(NOT ${name}_FOUND)
    set(YOKE_HAS_${part} OFF)
    message(STATUS "YOKE_${part} is left out: it needs ${module} (Debian: ${package})")
  endif()
endmacro()

yoke_optional(DOWNLOAD LIBCURL libcurl libcurl4-openssl-dev)
yoke_optional(DOWNLOAD LIBARCHIVE libarchive libarchive-dev)
yoke_optional(IMAGE LIBJPEG libjpeg libjpeg62-turbo-dev)
yoke_optional(IMAGE LIBPNG libpng libpng-dev)
yoke_optional(IMAGE LIBWEBP libwebp libwebp-dev)

# Backends that are modules of their own, objects beside libyoke (modules/). gloo has no pkg-config
# file, and Open MPI and MPICH may both be there: a module is built for each.
set(YOKE_GLOO AUTO CACHE STRING "The gloo backend (libgloo and a C++ compiler): AUTO, ON or OFF")
set(YOKE_MPI AUTO CACHE STRING "The mpi backend (Open MPI, MPICH or both): AUTO, ON or OFF")

# yoke_module(GLOO "gloo" libgloo-dev found) sets YOKE_HAS_GLOO.
macro(yoke_module part what package found)
  set_property(CACHE YOKE_${part} PROPERTY STRINGS AUTO ON OFF)
  if(NOT YOKE_${part} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "YOKE_${part} is ${YOKE_${part}}: expected AUTO, ON or OFF.")
  endif()
  set(YOKE_HAS_${part} OFF)
  if(NOT YOKE_${part} STREQUAL OFF)
    if(${found})
      set(YOKE_HAS_${part} ON)
    elseif(YOKE_${part} STREQUAL ON)
      yoke_missing("${what}" ${package})
    else()
      message(STATUS "YOKE_${part} is left out: it needs ${what} (Debian: ${package})")
    endif()
  endif()
endmacro()

include(CheckLanguage)
set(gloo_found OFF)
if(NOT YOKE_GLOO STREQUAL OFF)
  check_language(CXX)
  find_library(GLOO_LIBRARY gloo)
  find_path(GLOO_INCLUDE_DIR gloo/allreduce.h)
  if(CMAKE_CXX_COMPILER AND GLOO_LIBRARY AND GLOO_INCLUDE_DIR)
    set(gloo_found ON)
  endif()
endif()
yoke_module(GLOO "gloo and a C++ compiler" "libgloo-dev and g++" gloo_found)

pkg_check_modules(OPENMPI QUIET IMPORTED_TARGET ompi-c)
pkg_check_modules(MPICH QUIET IMPORTED_TARGET mpich)
set(mpi_found OFF)
if(OPENMPI_FOUND OR MPICH_FOUND)
  set(mpi_found ON)
endif()
yoke_module(MPI "Open MPI or MPICH" "libopenmpi-dev or libmpich-dev" mpi_found)

# The cuda device (modules/cuda): its kernels need a driver of the version of CUDA that compiles them.
set(YOKE_CUDA AUTO CACHE STRING "The cuda device, for NVIDIA GPUs (nvcc): AUTO, ON or OFF")
find_program(YOKE_NVCC nvcc HINTS /usr/local/cuda/bin)
set(nvcc_found OFF)
if(YOKE_NVCC AND NOT YOKE_CUDA STREQUAL OFF)
  execute_process(COMMAND ${YOKE_NVCC} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
  if(nvcc_version MATCHES "release ([0-9]+)\\.([0-9]+)")
    math(EXPR YOKE_CUDA_VERSION "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2} * 10")
    set(nvcc_found ON)
  endif()
endif()
yoke_module(CUDA "nvcc" "cuda-nvcc-13-0, from NVIDIA" nvcc_found)
