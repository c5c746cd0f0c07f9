# find_package(whered) gives the target whered::whered. Installed as lib/cmake/whered/wheredConfig.cmake.
get_filename_component(whered_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET whered::whered)
  add_library(whered::whered SHARED IMPORTED)
  set_target_properties(whered::whered PROPERTIES
    IMPORTED_LOCATION "${whered_prefix}/lib/libwhered.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${whered_prefix}/include")
endif()
